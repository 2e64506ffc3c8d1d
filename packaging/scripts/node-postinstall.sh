#!/bin/sh
# After the files are there: "configure OLD" by dpkg, the number of versions that are installed by rpm. Nothing is
# switched on. A broker that runs is started again with the new binary: clients come back by themselves.
set -e

case "$1" in
configure | [0-9]*) ;;
*) exit 0 ;; # dpkg takes back what failed
esac

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart synergy-broker.service
