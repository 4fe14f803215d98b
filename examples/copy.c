/* Copy a file through memory on huge pages: copy FROM TO */
#include <fcntl.h>
#include <stdio.h>

#include <sluice/sluice.h>

int main(int argc, char **argv)
{
	struct sluice_file_info info = {.size = sizeof(info)};
	struct sluice_err err = {.code = 0, .msg = "usage: copy FROM TO"};
	struct sluice_file *from, *to;
	struct sluice_io *io = NULL;
	void *buf;

	if (argc != 3 || sluice_open(&io, NULL, &err) ||
	    sluice_file_open(&from, io, argv[1], O_RDONLY, 0, &err) ||
	    sluice_file_open(&to, io, argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644, &err) ||
	    sluice_file_stat(from, &info) ||
	    sluice_buf_alloc(&buf, io, info.bytes, 0, NULL, &err) ||
	    sluice_pread(from, buf, info.bytes, 0, &err) < 0 ||
	    sluice_pwrite(to, buf, info.bytes, 0, &err) < 0)
		return fprintf(stderr, "copy: %s\n", err.msg), sluice_close(io, NULL), 1;
	return sluice_close(io, &err) < 0;
}
