#!/bin/sh
# Stands before rustc and makes it compile the files here as tests: only then is there a body.
case "$*" in
*"--crate-name trybuild"*) exec "$@" --test ;;
*) exec "$@" ;;
esac
