"""What proposes tokens: one drafter a file."""
