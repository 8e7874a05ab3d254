"""The service that runs beside a Storm cluster: composition, loop, HTTP, dashboard, plans and modes."""
