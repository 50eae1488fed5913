"""The three permissions that pages, actions and the admin check."""

VIEW = "botpool.view_pool"
OPERATE = "botpool.operate_pool"
ADMINISTER = "botpool.administer_pool"
