"""What runs on a real cluster elsewhere, on a virtual one."""
