"""Which nodes a drafted tree has, level by level."""
