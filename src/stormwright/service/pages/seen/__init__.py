"""What pages show, worked out of a problem before anybody asks for a page."""
