"""The project: settings, urls, schedule of periodic work, commands. Imported by nothing of ours."""
