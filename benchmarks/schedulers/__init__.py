"""All schedulers: time and memory at the size of large clusters, and what each gains."""
