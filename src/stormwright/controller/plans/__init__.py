"""Plans that people look at before anything moves, in stages that are judged; all of it pure."""
