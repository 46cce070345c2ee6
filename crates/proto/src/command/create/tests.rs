//! CREATE, judged from outside.
