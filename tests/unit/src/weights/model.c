/* SPDX-License-Identifier: Apache-2.0 */
/* Models as they are found on disk: which weights, in which groups, in which order. */
#include <endian.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <penstock/ckpt.h>
#include <penstock/stripe.h>
#include <penstock/weights.h>

#include "base/random.h"
#include "base/util.h"
#include "tests/common/t.h"

static struct penstock_io *io;
static struct penstock_model *model;
static struct penstock_err err;

static void setup(void)
{
	T_ERR(penstock_open(&io, NULL, &err), 0, &err);
	model = NULL;
}

static void teardown(void)
{
	penstock_model_close(model);
	T_EQ(penstock_close(io, NULL), 0);
}

static void put(const char *name, const void *data, size_t len)
{
	int fd = open(t_path(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	T_OK(fd >= 0);
	T_EQ(write(fd, data, len), len);
	T_EQ(close(fd), 0);
}

static void folder(const char *name)
{
	T_OK(mkdir(t_path(name), 0700) == 0 || errno == EEXIST);
}

/* A file with tensors of these names, 100 + i bytes each, full of the letter 'a' + i. */
static void save(const char *path, const char *const *names, unsigned n)
{
	struct penstock_tensor t[16];
	uint64_t shape[16];
	static char data[16][128];

	for (unsigned i = 0; i < n; i++) {
		shape[i] = 100 + i;
		memset(data[i], 'a' + (int)i, sizeof(data[i]));
		t[i] = (struct penstock_tensor){names[i], &shape[i], 1,      PENSTOCK_U8,
						shape[i], 0,         data[i]};
	}
	T_ERR(penstock_safetensors_save(io, t_path(path), t, n, NULL, 0, NULL, &err), 0, &err);
}

static int open_by(const char *path, uint32_t by)
{
	struct penstock_model_opts o = PENSTOCK_MODEL_OPTS_INIT;

	penstock_model_close(model);
	model = NULL;
	o.by = by;
	return penstock_model_open(&model, io, t_path(path), &o, &err);
}

/* The groups are these, and each of their weights is where it says. */
static void groups_are(const char *const *names, unsigned n)
{
	struct penstock_weights *w;
	struct penstock_view v;
	uint64_t i = 0;

	for (; penstock_model_get_group(model, i); i++) {
		T_OK(i < n);
		T_STR_HAS(penstock_model_get_group(model, i)->name, names[i]);
		T_STR_HAS(names[i], penstock_model_get_group(model, i)->name);
	}
	T_EQ(i, n);
	T_ERR(penstock_weights_open(&w, io, model, NULL, &err), 0, &err);
	for (i = 0; i < n; i++) {
		T_ERR(penstock_weights_next(w, &v, &err), 1, &err);
		for (uint64_t k = 0; k < v.nr; k++) {
			const struct penstock_weight *t =
				penstock_model_get_weight(model, v.first + k);

			for (uint64_t b = 0; b < t->len; b++)
				T_EQ(v.base[v.at[k] + b], v.base[v.at[k]]);
			if (!strcmp(t->dtype, "U8"))
				T_EQ(v.base[v.at[k]], 'a' + (int)t->len - 100);
		}
		T_ERR(penstock_weights_release(w, v.group, &err), 0, &err);
	}
	penstock_weights_close(w);
}

#define GROUPS(...)                                    \
	groups_are((const char *const[]){__VA_ARGS__}, \
		   (unsigned)T_COUNT(((const char *const[]){__VA_ARGS__})))

static const char *const llama[] = {
	"lm_head.weight",
	"model.norm.weight",
	"model.layers.10.mlp.up_proj.weight",
	"model.layers.2.mlp.up_proj.weight",
	"model.layers.2.mlp.experts.11.w1",
	"model.layers.2.mlp.experts.3.w1",
	"model.layers.2.mlp.experts.3.w2",
	"model.embed_tokens.weight",
};

static void layers_come_in_the_order_of_use(void)
{
	save("m.safetensors", llama, T_COUNT(llama));
	T_ERR(open_by("m.safetensors", PENSTOCK_BY_LAYER), 0, &err);
	GROUPS("model.embed_tokens", "model.layers.2", "model.layers.10", "lm_head", "model.norm");
	T_EQ(penstock_model_get_group(model, 1)->nr, 4);
	T_EQ(penstock_model_get_group(model, 1)->bytes, 103 + 104 + 105 + 106);
	T_ERR(open_by("m.safetensors", PENSTOCK_BY_EXPERT), 0, &err);
	GROUPS("model.embed_tokens", "model.layers.2", "model.layers.2.mlp.experts.3",
	       "model.layers.2.mlp.experts.11", "model.layers.10", "lm_head", "model.norm");
	T_ERR(open_by("m.safetensors", PENSTOCK_BY_TENSOR), 0, &err);
	T_OK(penstock_model_get_group(model, 7) && !penstock_model_get_group(model, 8));
	T_ERR(open_by("m.safetensors", 3), -EINVAL, &err);
}

static void another_order_can_be_given(void)
{
	save("m.safetensors", llama, T_COUNT(llama));
	T_ERR(open_by("m.safetensors", PENSTOCK_BY_LAYER), 0, &err);
	T_ERR(penstock_model_order(model, (const uint64_t[]){4, 3, 2, 1, 0}, 5, &err), 0, &err);
	GROUPS("model.norm", "lm_head", "model.layers.10", "model.layers.2", "model.embed_tokens");
	T_ERR(penstock_model_order(model, (const uint64_t[]){4, 3, 2, 1, 4}, 5, &err), -EINVAL,
	      &err);
	T_ERR(penstock_model_order(model, (const uint64_t[]){0, 1}, 2, &err), -EINVAL, &err);
}

static void folders_are_read_with_and_without_an_index(void)
{
	static const char *const a[] = {"x.0.w", "x.1.a"}, *const b[] = {"x.1.b", "x.2.w"};
	static const char index[] = "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {"
				    "\"x.2.w\": \"b.safetensors\", \"x.0.w\" :\"a.safetensors\"}}";

	folder("dir");
	save("dir/a.safetensors", a, 2);
	save("dir/b.safetensors", b, 2);
	T_ERR(open_by("dir", PENSTOCK_BY_LAYER), 0, &err);
	GROUPS("x.0", "x.1", "x.2");
	T_EQ(penstock_model_get_group(model, 1)->nr, 2);
	put("dir/model.safetensors.index.json", index, sizeof(index) - 1);
	T_ERR(open_by("dir", PENSTOCK_BY_LAYER), 0, &err);
	GROUPS("x.0", "x.2");
	T_ERR(open_by("dir/model.safetensors.index.json", PENSTOCK_BY_LAYER), 0, &err);
	GROUPS("x.0", "x.2");
}

static void a_wrong_index_is_told(void)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"{}", "it has no \"weight_map\""},
		{"{\"weight_map\": {\"x.0.w\": \"a.safetensors\"", "',' or '}' is due"},
		{"{\"weight_map\": {\"x.0.w\": 7}}", "both in quotes"},
		{"{\"weight_map\": {\"x.0.w\": \"../a.safetensors\"}}", "of the same folder"},
		{"{\"weight_map\": {\"x.9.w\": \"a.safetensors\"}}", "no tensor 'x.9.w'"},
		{"{\"weight_map\": {\"x.0.w\": \"c.safetensors\"}}", "c.safetensors"},
		{"{\"weight_map\": {}}", "has no tensor in it"},
	};
	static const char *const a[] = {"x.0.w"};

	folder("bad");
	save("bad/a.safetensors", a, 1);
	for (size_t i = 0; i < T_COUNT(bad); i++) {
		put("bad/m.safetensors.index.json", bad[i].text, strlen(bad[i].text));
		T_OK(open_by("bad", PENSTOCK_BY_LAYER) < 0);
		T_STR_HAS(err.msg, bad[i].why);
	}
}

/* --------------------------------------------------------------------- GGUF */

static struct {
	unsigned char b[1 << 16];
	size_t len;
} g;

static void bytes(const void *p, size_t n)
{
	memcpy(g.b + g.len, p, n);
	g.len += n;
}

static void u32(uint32_t v)
{
	v = htole32(v);
	bytes(&v, 4);
}

static void u64(uint64_t v)
{
	v = htole64(v);
	bytes(&v, 8);
}

static void text(const char *s)
{
	u64(strlen(s));
	bytes(s, strlen(s));
}

static void tensor(const char *name, uint32_t type, uint64_t offset, uint32_t rank, uint64_t a,
		   uint64_t b)
{
	text(name);
	u32(rank);
	u64(a);
	if (rank > 1)
		u64(b);
	u32(type);
	u64(offset);
}

static void gguf_head(uint64_t nr, uint32_t version)
{
	g.len = 0;
	bytes("GGUF", 4);
	u32(version);
	u64(nr);
	u64(4);
	text("general.alignment");
	u32(4);
	u32(64);
	text("tokens");
	u32(9);
	u32(8);
	u64(2);
	text("hello");
	text("world");
	text("numbers");
	u32(9);
	u32(5);
	u64(3);
	for (uint32_t i = 0; i < 3; i++)
		u32(i);
	text("name");
	u32(8);
	text("toy");
}

/* Data begin at a multiple of 64: 256 bytes of 1, then 144 of 2 at 256, 34 of 3 at 448. */
static void gguf_data(const char *path, size_t cut)
{
	size_t data;

	g.len = (g.len + 63) / 64 * 64;
	data = g.len;
	memset(g.b + data, 1, 256);
	memset(g.b + data + 256, 2, 192);
	memset(g.b + data + 448, 3, 34);
	g.len = data + 482 - cut;
	put(path, g.b, g.len);
}

static void gguf_is_read(void)
{
	const struct penstock_weight *t;

	gguf_head(3, 3);
	tensor("blk.0.ffn_up_exps.weight", 0, 0, 2, 16, 4);
	tensor("output.weight", 12, 256, 1, 256, 0);
	tensor("token_embd.weight", 8, 448, 2, 16, 2);
	gguf_data("m.gguf", 0);
	T_ERR(open_by("m.gguf", PENSTOCK_BY_LAYER), 0, &err);
	GROUPS("token_embd", "blk.0", "output");
	t = penstock_model_get_weight(model, 0);
	T_STR_HAS(t->dtype, "Q8_0");
	T_EQ(t->len, 34);
	T_EQ(t->shape[0], 2);
	T_EQ(t->shape[1], 16);
	T_EQ(penstock_model_get_weight(model, 1)->len, 256);
	T_EQ(penstock_model_get_weight(model, 2)->len, 144);
	/* tensors of all experts are as many weights */
	T_ERR(open_by("m.gguf", PENSTOCK_BY_EXPERT), 0, &err);
	GROUPS("token_embd", "blk.0.experts.0", "blk.0.experts.1", "blk.0.experts.2",
	       "blk.0.experts.3", "output");
	T_EQ(penstock_model_get_weight(model, 2)->offset,
	     penstock_model_get_weight(model, 1)->offset + 64);
	T_STR_HAS(penstock_model_get_weight(model, 2)->name, "blk.0.experts.1.ffn_up.weight");
}

static void a_wrong_gguf_is_told(void)
{
	gguf_head(1, 1);
	put("m.gguf", g.b, g.len);
	T_ERR(open_by("m.gguf", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "versions 2 and 3");
	gguf_head(1, 3);
	tensor("x", 4, 0, 1, 8, 0);
	gguf_data("m.gguf", 0);
	T_ERR(open_by("m.gguf", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "tensor 'x': type 4 is not known");
	gguf_head(1, 3);
	tensor("x", 12, 0, 1, 255, 0);
	gguf_data("m.gguf", 0);
	T_ERR(open_by("m.gguf", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "whole blocks");
	gguf_head(1, 3);
	tensor("x", 0, 448, 1, 8, 0);
	gguf_data("m.gguf", 3);
	T_ERR(open_by("m.gguf", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "tensor 'x': ends at byte");
	gguf_head(2, 3);
	for (size_t cut = 1; cut < g.len; cut += 7) { /* anywhere in the header */
		put("m.gguf", g.b, g.len - cut);
		T_ERR(open_by("m.gguf", 0), -EINVAL, &err);
	}
}

/* ----------------------------------------------------------------- the rest */

static void a_swap_folder_is_a_group_for_each_parameter(void)
{
	static const char *const order[] = {"2_param.tensor.swp", "10_param.tensor.swp"};
	char data[8192];

	memset(data, 'x', sizeof(data));
	folder("swap");
	folder("swap/bfloat16params");
	folder("swap/bfloat16params/rank0");
	put("swap/bfloat16params/rank0/10_param.tensor.swp", data, 8192);
	put("swap/bfloat16params/rank0/2_param.tensor.swp", data, 4096);
	T_ERR(open_by("swap/bfloat16params/rank0", 0), 0, &err);
	groups_are(order, 2);
	T_STR_HAS(penstock_model_get_weight(model, 0)->dtype, "BF16");
	T_EQ(penstock_model_get_weight(model, 0)->shape[0], 2048);
	put("swap/bfloat16params/rank0/3_param.tensor.swp", data, 4095);
	T_ERR(open_by("swap/bfloat16params/rank0", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "whole elements of BF16");
}

/* The bytes of a file, in one that is striped over two folders. */
static void put_striped(const char *name, const void *data, size_t len)
{
	const char *members[2];
	struct penstock_file *f;

	folder("a");
	folder("b");
	members[0] = t_path("a");
	members[1] = t_path("b");
	T_ERR(penstock_stripe_create(t_path(name), 4096, members, 2, 0, &err), 0, &err);
	T_ERR(penstock_file_open(&f, io, t_path(name), O_RDWR, 0, &err), 0, &err);
	T_EQ(penstock_pwrite(f, data, len, 0, &err), len);
	T_EQ(penstock_file_close(f, &err), 0);
}

/* stat(2) knows a striped file by the size of its manifest. */
static void striped_files_are_as_long_as_their_parts(void)
{
	static const char *const names[] = {"model.layers.0.w", "model.layers.1.w"};
	static const char *const order[] = {"model.layers.0", "model.layers.1"};
	char data[10000];
	int fd;
	int64_t n;

	folder("drives");
	memset(data, 'x', sizeof(data));
	put_striped("drives/1_param.tensor.swp", data, sizeof(data));
	T_ERR(open_by("drives", 0), 0, &err);
	T_EQ(penstock_model_get_weight(model, 0)->len, sizeof(data));

	save("plain", names, 2);
	fd = open(t_path("plain"), O_RDONLY);
	n = read(fd, data, sizeof(data));
	T_OK(n > 200);
	T_EQ(close(fd), 0);
	put_striped("drives/m.safetensors", data, (size_t)n);
	T_ERR(open_by("drives/m.safetensors", 0), 0, &err);
	groups_are(order, 2);
	T_EQ(penstock_model_get_weight(model, 1)->offset + 101, n);
}

static void what_is_no_model_is_told(void)
{
	folder("empty");
	T_ERR(open_by("empty", 0), -ENOENT, &err);
	T_STR_HAS(err.msg, "has no *.safetensors, *.gguf or *_param.tensor.swp");
	put("text", "hello, world", 12);
	T_ERR(open_by("text", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "is neither safetensors nor");
	T_ERR(open_by("nothing", 0), -ENOENT, &err);
	put("cut.safetensors", "\x20\0\0\0\0\0\0\0{\"a\"", 12);
	T_ERR(open_by("cut.safetensors", 0), -EINVAL, &err);
	T_STR_HAS(err.msg, "cut.safetensors");
}

int main(void)
{
	static const struct t_case cases[] = {
		T_CASE(layers_come_in_the_order_of_use),
		T_CASE(another_order_can_be_given),
		T_CASE(folders_are_read_with_and_without_an_index),
		T_CASE(a_wrong_index_is_told),
		T_CASE(gguf_is_read),
		T_CASE(a_wrong_gguf_is_told),
		T_CASE(a_swap_folder_is_a_group_for_each_parameter),
		T_CASE(striped_files_are_as_long_as_their_parts),
		T_CASE(what_is_no_model_is_told),
	};
	static const struct t_group groups[] = {{"models", setup, teardown, cases, T_COUNT(cases)}};

	return t_run(groups, 1, NULL);
}
