// The editor of the page Run.
