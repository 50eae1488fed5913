"""How clients share the slots: the order of the line, and the limits of each."""
