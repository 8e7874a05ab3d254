"""Views: from the dashboard's state to the data of each template."""
