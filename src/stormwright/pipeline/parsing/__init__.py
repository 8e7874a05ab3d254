"""From lines to records: what is read, what counts, what is kept with the reason why it does not."""
