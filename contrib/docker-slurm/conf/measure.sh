#!/bin/sh
# What measures tasks on this cluster, whose trainers are emulated forty times as fast as real ones: in windows of four seconds. A site names synergy itself.
exec /opt/synergy/bin/synergy "$@" --window 4s --total 36s
