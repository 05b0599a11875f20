"""What a receiver is, what it gets and answers, and wording for all; `integrations` has them, `delivery` calls them."""
