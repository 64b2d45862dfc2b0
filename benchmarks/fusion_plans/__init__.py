"""Random fusion plans, compiled to see that those which are one kernel by the rules are one."""
