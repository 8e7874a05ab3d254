"""What runs beside a Storm cluster: who is connected to whom, the loop, HTTP, pages, plans and modes."""
