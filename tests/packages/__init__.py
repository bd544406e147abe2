"""Everything that `scripts/release` makes, installed where nothing of it was, and used: upload, download, resume.

TIDEGATE_RELEASE names the folder of the release (default: dist). What is for aarch64 runs in an emulator of the processor. The
run ends with a table. It needs root, for chroot, and what `scripts/install qemu-aarch64 python-aarch64 debootstrap crane` brings.
"""
