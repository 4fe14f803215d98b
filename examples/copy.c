/* Copy a file through memory on huge pages: copy FROM TO */
#include <fcntl.h>
#include <stdio.h>

#include <penstock/penstock.h>

int main(int argc, char **argv)
{
	struct penstock_file_info info = {.size = sizeof(info)};
	struct penstock_err err = {.code = 0, .msg = "usage: copy FROM TO"};
	struct penstock_file *from, *to;
	struct penstock_io *io = NULL;
	void *buf;

	if (argc != 3 || penstock_open(&io, NULL, &err) ||
	    penstock_file_open(&from, io, argv[1], O_RDONLY, 0, &err) ||
	    penstock_file_open(&to, io, argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644, &err) ||
	    penstock_file_stat(from, &info) ||
	    penstock_buf_alloc(&buf, io, info.bytes, 0, NULL, &err) ||
	    penstock_pread(from, buf, info.bytes, 0, &err) < 0 ||
	    penstock_pwrite(to, buf, info.bytes, 0, &err) < 0)
		return fprintf(stderr, "copy: %s\n", err.msg), penstock_close(io, NULL), 1;
	return penstock_close(io, &err) < 0;
}
