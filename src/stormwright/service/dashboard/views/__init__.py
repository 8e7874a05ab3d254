"""One view a page: from what is known to what its template shows."""
