"""What people write, as a gang: job files, launch lines, batch scripts, manifests."""
