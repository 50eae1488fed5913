"""What is said of a waiter: its position, its estimate, why it waits. Changes no row."""
