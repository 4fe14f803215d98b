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
	int64_t n = -1;

	if (argc == 3 && sluice_open(&io, NULL, &err) == 0 &&
	    sluice_file_open(&from, io, argv[1], O_RDONLY, 0, &err) == 0 &&
	    sluice_file_open(&to, io, argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644, &err) == 0 &&
	    sluice_file_stat(from, &info) == 0 &&
	    sluice_buf_alloc(&buf, io, info.bytes, 0, NULL, &err) == 0 &&
	    (n = sluice_pread(from, buf, info.bytes, 0, &err)) >= 0)
		n = sluice_pwrite(to, buf, (uint64_t)n, 0, &err);
	if (n < 0)
		fprintf(stderr, "copy: %s\n", err.msg);
	return sluice_close(io, NULL) < 0 || n < 0;
}
