"""What stands beside the members of a job: generations, the channel, snapshot memory. Standard library only."""
