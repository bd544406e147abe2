#!/bin/sh
# Installs the program tidegate on Linux: fetches the archive for this machine, compares its SHA-256 sum with the one that is
# published beside it, and installs it into PREFIX/bin (default: ~/.local/bin).
#
#   sh install.sh URL                                 URL: the folder that has the files of a release
#   curl -fsSL URL/install.sh | sh -s -- URL
#   curl -fsSL URL/install.sh | sudo PREFIX=/usr/local sh -s -- URL
#
# Needs curl or wget, tar, gzip and sha256sum.
set -eu

fail() {
    echo "install.sh: $1; nothing was installed" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null 2>&1 || fail "$1 is not on PATH"
}

# fetch NAME: from the folder of the release into the working directory.
fetch() {
    if command -v curl >/dev/null 2>&1; then
        curl -fsSL --retry 3 --connect-timeout 20 --speed-limit 1000 --speed-time 30 -o "$work/$1" "$url/$1" || fail "$shown/$1 could not be fetched"
    elif command -v wget >/dev/null 2>&1; then
        wget -q -T 30 -t 3 -O "$work/$1" "$url/$1" || fail "$shown/$1 could not be fetched"
    else
        fail "neither curl nor wget is on PATH"
    fi
}

# A function, so that a script that arrives only in part does nothing.
main() {
    url=${1:-${TIDEGATE_URL:-}}
    case $url in -*) fail "usage: sh install.sh URL" ;; esac
    url=${url%/}
    # Without a password in it.
    shown=$url
    case $url in *://*@*) shown=${url%%://*}://${url#*@} ;; esac
    [ -n "$url" ] || fail "give the address of the release: sh install.sh URL, or TIDEGATE_URL"
    [ $# -le 1 ] || fail "one argument is expected, the address of the release: $*"
    prefix=${PREFIX:-${HOME:+$HOME/.local}}
    [ -n "$prefix" ] || fail "HOME is not set: PREFIX=DIR says where to install"
    prefix=${prefix%/} new=$prefix/bin/.tidegate.$$

    [ "$(uname -s)" = Linux ] || fail "the programs are for Linux, and this is $(uname -s)"
    chip=$(uname -m)
    case $chip in
        x86_64 | amd64) target=x86_64-unknown-linux-gnu loader=/lib64/ld-linux-x86-64.so.2 ;;
        aarch64 | arm64) target=aarch64-unknown-linux-gnu loader=/lib/ld-linux-aarch64.so.1 ;;
        *) fail "there is no program for the processor $chip (there are x86_64 and aarch64): build it from the sources" ;;
    esac
    [ -e "$loader" ] || fail "the program needs the GNU C library, and there is no $loader (Alpine Linux has another library)"
    need tar
    need gzip
    need sha256sum

    work=$(mktemp -d) || fail "no temporary directory could be made (TMPDIR names another place for it)"
    trap 'rm -rf "$work" "$new"' EXIT
    trap 'exit 1' HUP INT TERM

    fetch SHA256SUMS
    # The sums name the version.
    line=$(grep -E "^[0-9a-f]{64}  tidegate-[0-9][^/ ]*-$target\.tar\.gz\$" "$work/SHA256SUMS") ||
        fail "$shown/SHA256SUMS has no archive for $target"
    [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "$shown/SHA256SUMS has several archives for $target"
    archive=${line#*  }
    fetch "$archive"
    printf '%s\n' "$line" >"$work/sum"
    (cd "$work" && sha256sum -c sum >/dev/null 2>&1) ||
        fail "$shown/$archive is not what SHA256SUMS says: it has the SHA-256 sum $(sha256sum <"$work/$archive" | cut -d ' ' -f 1)"

    tar -xzf "$work/$archive" -C "$work" || fail "$archive could not be unpacked"
    program=$work/${archive%.tar.gz}/tidegate
    # Copied beside its place first: a temporary directory may be mounted so that nothing runs from it.
    { mkdir -p "$prefix/bin" && cp "$program" "$new" && chmod 755 "$new"; } ||
        fail "$prefix/bin could not be written to (PREFIX=DIR installs into DIR/bin)"
    version=$("$new" --version) || fail "the program does not run on this machine"
    [ ! -d "$prefix/bin/tidegate" ] || fail "$prefix/bin/tidegate is a directory"
    mv -f "$new" "$prefix/bin/tidegate" || fail "$prefix/bin/tidegate could not be replaced"
    printf '%s\n' "$version" | head -n 1
    echo "installed: $prefix/bin/tidegate"
    case :$PATH: in
        *:"$prefix/bin":*) ;;
        *) echo "$prefix/bin is not on PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    # Of two programs, the shell starts the one whose directory comes first.
    found=$(command -v tidegate) || found=$prefix/bin/tidegate
    [ "$found" -ef "$prefix/bin/tidegate" ] || echo "$found comes first on PATH: remove it, or put $prefix/bin before it"
}

main "$@"
