#!/bin/sh
# A new token for the daemon, by a rename, so that no half of it is ever read. The folder is the daemon's user's, who
# might leave a link there under any name: so it is he who writes, and not root. The token is in no command line.
set -eu

lifespan=${SYNERGY_TOKEN_LIFESPAN:-86400}
token=$(scontrol token username=synergy lifespan="$lifespan")
case $token in
SLURM_JWT=?*) ;;
*)
    echo "renew-token: scontrol gives no token: want SLURM_JWT=… on its standard output; is auth/jwt in AuthAltTypes?" >&2
    exit 1
    ;;
esac

printf '%s\n' "$token" | setpriv --reuid=synergy --regid=synergy --clear-groups sh -euc '
    umask 077
    cd /var/lib/synergy
    new=$(mktemp .token.XXXXXX)
    trap "rm -f \"\$new\"" EXIT
    cat >"$new"
    mv -f "$new" token
    trap - EXIT'
