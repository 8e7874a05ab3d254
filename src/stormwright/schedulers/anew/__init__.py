"""Placing anew what runs: any rule's answer as if nothing ran, with slots renamed so that little of it moves."""
