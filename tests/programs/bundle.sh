#!/usr/bin/env bash
# The archive of programs and libraries: moved elsewhere, without an environment, and where the system can,
# on a root that holds nothing but it and the C library.
source "$(dirname "$0")/common.sh"

"$source_root/apps/bundle" "$programs" packed.tar.gz > said || fail "bundle"
cat said
mkdir -p elsewhere
tar -C elsewhere -xzf packed.tar.gz
bundle=$PWD/elsewhere/packed
libraries=LD_LIBRARY_PATH=$bundle/lib
train save_folder=calm max_duration=5ba save_interval=5ba
name=$(basename "$(readlink calm/latest)")
same() {
  for file in "calm/$name"/*.safetensors; do
    cmp "$file" "$1/$name/$(basename "$file")" || fail "$1: $(basename "$file") differs"
  done
}
run=(pretrain small.yaml max_duration=5ba save_interval=5ba)

# every library is the bundle's own, but for the C library's
for program in "$bundle"/bin/*; do
  env -i "$libraries" /usr/bin/ldd "$program" | grep '=>' | grep -vE "$bundle|/elsewhere/packed/|=> .*/(lib(c|m|mvec|pthread|dl|rt|resolv|util))\.so" &&
    fail "$(basename "$program") takes libraries of the machine"
done
env -i "$libraries" "$bundle/bin/${run[0]}" "${run[@]:1}" save_folder=moved > log 2>&1 || { cat log >&2; fail "the moved pretrain"; }
same moved
sed '/^ranks:/d' small.yaml > unranked.yaml
env -i "$libraries" "$bundle/bin/launch" -n 2 pretrain unranked.yaml max_duration=5ba save_interval=5ba save_folder=launched > log 2>&1 ||
  { cat log >&2; fail "the moved launch"; }
same launched
echo "moved, without an environment: the same bytes"

# a root with the C library and nothing else
root=root
mkdir -p $root/lib64 $root/work $root/proc $root/tmp $root/dev
while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done < <(ldd "$programs/pretrain" | grep -oE '(/[^ ]*/)(ld-linux[^ ]*|lib(c|m|mvec|pthread|dl|rt|resolv|util)\.so[^ ]*)' | sort -u)
cp -r "$bundle" $root/bundle
cp -r small.yaml tokenizer data $root/work/
if unshare --mount true 2> /dev/null && [[ $EUID == 0 ]]; then
  unshare --mount bash -c "mount -t proc proc $root/proc && mount --bind /dev $root/dev &&
    exec env -i LD_LIBRARY_PATH=/bundle/lib /usr/sbin/chroot $root /bundle/bin/pretrain /work/small.yaml tokenizer.name=/work/tokenizer \
      train_loader.dataset.local=/work/data max_duration=5ba save_interval=5ba save_folder=/work/out" > log 2>&1 ||
    { cat log >&2; fail "training on an empty root"; }
  same $root/work/out
  echo "on a root of the C library alone: the same bytes"
fi
