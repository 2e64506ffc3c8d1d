#!/bin/sh
# After the files are there: "configure OLD" by dpkg, where OLD is empty at the first time; the number of versions
# that are installed by rpm. Nothing is switched on. A daemon that runs is started again with the new binary: that
# hands nothing back, and leases last longer.
set -e

case "$1" in
configure | [0-9]*) ;;
*) exit 0 ;; # dpkg takes back what failed
esac

systemd-sysusers synergy.conf
systemd-tmpfiles --create synergy.conf
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart synergy-slurmd.service
