"""Who is served first, who has to wait, and what users may have: around every scheduler, in one place."""
