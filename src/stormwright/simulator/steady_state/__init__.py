"""What happens in each interval of virtual time by the steady state that is predicted for it."""
