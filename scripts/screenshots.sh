#!/usr/bin/env bash
# Takes the pictures in docs/images anew: the page of `choro metrics`, `choro top` and a flame graph, of
# a server with some clients. For root. CHORO_BIN names a release with frame pointers that was built
# already; SECONDS_OF_LOAD is the time before the pictures, 300 if it is not set.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/needs.sh

PICTURE_BYTES_MAX=153600
PORT=4475
PAGE_PORT=9475
load=${SECONDS_OF_LOAD:-300}

[ "$(id -u)" -eq 0 ] || fail 'perf and users of the server take root'
need_to_build
need_packages chromium fonts-dejavu-core=fc-list linux-perf=perf pngquant smbclient tmux
keep_frame_pointers
choro=${CHORO_BIN:-}
[ -n "$choro" ] || build_choro

site=$(mktemp -d)
chmod 755 "$site"
clients=()
end() {
    # Their own processes, and no others.
    [ ${#clients[@]} -eq 0 ] || kill "${clients[@]}" 2>/dev/null || true
    tmux -L choro-pictures kill-server 2>/dev/null || true
    wait
    rm -rf "$site"
}
trap end EXIT

mkdir -p "$site"/{projects,media,lock,state,private,run,cache} docs/images
chown nobody "$site/projects" "$site/media"
cat >"$site/smb.conf" <<EOF
[global]
state directory = $site/state
lock directory = $site/lock
private dir = $site/private
pid directory = $site/run
cache directory = $site/cache
smb ports = $PORT
interfaces = 127.0.0.1
bind interfaces only = yes
[qos:visitors]
match = user carla
max bandwidth = 20M
[qos:staff]
match = user anna
[projects]
path = $site/projects
read only = no
force user = nobody
[media]
path = $site/media
read only = no
force user = nobody
EOF
for user in anna ben carla; do
    printf 'picture-7\n' | "$choro" --config "$site/smb.conf" user add "$user" --password-stdin
    printf 'username = %s\npassword = picture-7\n' "$user" >"$site/$user"
done
"$choro" --config "$site/smb.conf" serve 2>"$site/log" &
clients+=($!)
until grep -q 'listening on' "$site/log"; do sleep 0.1; done
"$choro" --config "$site/smb.conf" metrics --listen "127.0.0.1:$PAGE_PORT" >"$site/metrics" &
clients+=($!)

# client USER SHARE COMMANDS: repeats lines of smbclient in one session
client() {
    (
        cd "$site"
        exec smbclient -p "$PORT" -A "$1" "//127.0.0.1/$2" >/dev/null 2>&1 < <(yes "$3" 2>/dev/null)
    ) &
    clients+=($!)
}

say "clients work for $load seconds"
head -c 8000 /dev/urandom >"$site/letter"
head -c 30000000 /dev/urandom >"$site/media/film"
small=$'put letter one\nput letter two\nget one /dev/null\nls\nget two /dev/null\ndel one\ndel two'
client anna projects "$small"
sleep $((load / 4))
client ben media 'get film /dev/null'
sleep $((load / 4))
client carla media 'get film /dev/null'
sleep $((load / 2))

# picture NAME WIDTH HEIGHT URL: of a page, with few colors so that it is small
picture() {
    local out=docs/images/$1.png
    HOME=$site chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --no-first-run --disable-background-networking --hide-scrollbars \
        --user-data-dir="$site/browser" --window-size="$2,$3" --virtual-time-budget=5000 \
        --screenshot="$site/$1.png" "$4" >"$site/chromium" 2>&1
    pngquant --force --strip --speed 1 --output "$out" "$site/$1.png"
    [ "$(stat -c %s "$out")" -le "$PICTURE_BYTES_MAX" ] || fail "$out has more than 150 KiB"
    say "made: $out, $(stat -c %s "$out") bytes"
}

say 'the page'
picture page 1200 1150 "http://127.0.0.1:$PAGE_PORT/"

say 'choro top'
tmux -L choro-pictures -f /dev/null new-session -d -x 130 -y 12 \
    "$choro --config $site/smb.conf top --interval 2"
shown() { tmux -L choro-pictures capture-pane -p; }
until shown | grep -q carla && shown | grep -q QoS; do sleep 0.2; done
{
    echo '<meta charset="utf-8"><style>body { margin: 14px; background: #14171b; color: #e4e8ec; }'
    echo 'pre { margin: 0; font: 13px/1.4 "DejaVu Sans Mono", monospace; }</style><pre>'
    shown | sed 's/&/\&amp;/g; s/</\&lt;/g'
    echo '</pre>'
} >"$site/top.html"
picture top 1060 250 "file://$site/top.html"

say 'a flame graph'
"$choro" --config "$site/smb.conf" profile all --seconds 10 -o "$site/flame.svg"
height=$(sed -n 's/.*<svg[^>]* height="\([0-9]*\)".*/\1/p' "$site/flame.svg" | head -n 1)
picture flame 1200 "$((height < 900 ? height : 900))" "file://$site/flame.svg"
