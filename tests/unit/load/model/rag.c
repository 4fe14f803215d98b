/* SPDX-License-Identifier: Apache-2.0 */
/* Documents, their chunks, retrieval, and the requests that come of them. */
#include "common/kvparams.h"
#include "common/t.h"
#include "load/model/kv_load_draw.h"
#include "load/model/kv_rag.h"

static struct kv_rag rag;

static void setup(void)
{
	t_kv_setup();
	t_kv.params.rag = true;
	t_kv.params.prefix = false;
}

static void teardown(void)
{
	kv_rag_fini(&rag);
	t_kv_teardown();
}

static void begin(void)
{
	struct penstock_err err;

	kv_rag_fini(&rag);
	T_ERR(kv_rag_init(&rag, &t_kv.params, &err), 0, &err);
}

static void use_model(const char *name)
{
	t_kv.params.model = kv_models_find(&t_kv.params.config.models, name);
	T_OK(t_kv.params.model != NULL);
}

/* -------------------------------------------------------------------- documents */

static void check_lengths(uint32_t least, uint32_t most)
{
	uint32_t seen_min = UINT32_MAX, seen_max = 0;

	begin();
	for (uint32_t doc = 0; doc < 1000; doc++) {
		uint32_t tokens = kv_rag_doc_tokens(&rag, doc), sum = 0;

		T_OK(tokens >= least && tokens <= most);
		seen_min = tokens < seen_min ? tokens : seen_min;
		seen_max = tokens > seen_max ? tokens : seen_max;
		for (uint32_t i = 0; i < kv_rag_doc_chunks(&rag, doc); i++) {
			uint32_t n = kv_rag_chunk_tokens(&rag, doc, i);

			T_OK(n > 0 && n <= rag.chunk_tokens);
			T_OK(n == rag.chunk_tokens || i + 1 == kv_rag_doc_chunks(&rag, doc));
			sum += n;
		}
		T_EQ(sum, tokens);
	}
	T_OK(seen_min < least + (most - least) / 20 && seen_max > most - (most - least) / 20);
}

static void chunks_add_up_to_the_document(void)
{
	check_lengths(4000, 12000);
	T_EQ(rag.chunk_tokens, 512);
}

static void large_models_have_shorter_documents(void)
{
	use_model("llama3.1-70b-instruct");
	check_lengths(1024, 4096);
}

static void a_chunk_is_no_larger_than_allowed(void)
{
	t_kv.params.config.rag_max_chunk_bytes = 100 * 24576 + 1;
	check_lengths(4000, 12000);
	T_EQ(rag.chunk_tokens, 100);
	t_kv.params.config.rag_max_chunk_bytes = 1;
	begin();
	T_EQ(rag.chunk_tokens, 1);
}

static void documents_that_cannot_be_cut_are_refused(void)
{
	struct penstock_err err;

	t_kv.params.config.rag_small_tokens[1] = 1 << 30;
	t_kv.params.config.rag_chunk_tokens = 1;
	T_EQ(kv_rag_init(&rag, &t_kv.params, &err), -EINVAL);
	T_STR_HAS(err.msg, "chunks");
}

static void the_oldest_document_goes_when_there_are_too_many(void)
{
	struct penstock_random r = kv_stream(1, KV_STREAM_DOC, 0, 0);
	uint32_t gone = 0;

	t_kv.params.config.rag_max_documents = 3;
	begin();
	for (uint32_t doc = 0; doc < 5; doc++) {
		T_EQ(kv_rag_replaces(&rag, doc, &gone), doc >= 3);
		T_OK(doc < 3 || gone == doc - 3);
		kv_rag_add(&rag);
	}
	for (int i = 0; i < 100; i++) {
		uint32_t doc = kv_rag_any(&rag, &r);

		T_OK(doc >= 2 && doc <= 4);
	}
}

/* -------------------------------------------------------------------- retrieval */

/* How often each chunk comes first and how often at all, in 20000 retrievals. */
static void retrieve(uint32_t doc, unsigned *first, unsigned *ever)
{
	struct penstock_random r = kv_stream(7, KV_STREAM_DOC, 0, 0);

	for (int i = 0; i < 20000; i++) {
		uint32_t nr = kv_rag_retrieve(&rag, doc, &r);
		uint64_t seen = 0;

		T_EQ(nr, 5);
		for (uint32_t j = 0; j < nr; j++) {
			uint32_t chunk = kv_rag_chunk(&rag);

			T_OK(chunk < kv_rag_doc_chunks(&rag, doc));
			T_OK(!(seen & 1ull << chunk));
			seen |= 1ull << chunk;
			first[chunk] += j == 0;
			ever[chunk]++;
		}
	}
}

static void chunks_are_distinct_and_the_first_ones_come_more_often(void)
{
	unsigned first[24] = {0}, ever[24] = {0};
	uint32_t nr;
	double sum = 0;

	begin();
	retrieve(0, first, ever);
	nr = kv_rag_doc_chunks(&rag, 0);
	for (uint32_t i = 0; i < nr; i++)
		sum += 1.0 / (i + 1);
	for (uint32_t i = 0; i < nr; i++) {
		double want = 20000 / sum / (i + 1);

		T_OK(first[i] > 0.8 * want && first[i] < 1.2 * want);
		T_OK(i == 0 || ever[i] < ever[0]);
	}
}

static void retrieval_can_be_uniform(void)
{
	unsigned first[24] = {0}, ever[24] = {0};
	uint32_t nr;

	t_kv.params.config.rag_retrieval = KV_RETRIEVE_UNIFORM;
	begin();
	retrieve(0, first, ever);
	nr = kv_rag_doc_chunks(&rag, 0);
	for (uint32_t i = 0; i < nr; i++)
		T_OK(first[i] > 0.8 * 20000 / nr && first[i] < 1.2 * 20000 / nr);
}

static void a_short_document_gives_all_it_has(void)
{
	struct penstock_random r = kv_stream(7, KV_STREAM_DOC, 0, 0);

	t_kv.params.config.rag_top_k = 1000;
	begin();
	T_EQ(kv_rag_retrieve(&rag, 3, &r), kv_rag_doc_chunks(&rag, 3));
}

/* -------------------------------------------------------------------- the load */

static struct kv_cache *cache;
static unsigned chunk_reads, chunk_writes, chunk_deletes, doc_reads, doc_writes;

static int emit(void *arg, const struct kv_event *ev)
{
	(void)arg;
	if (ev->type != KV_EV_MISS)
		kv_load_row(t_kv.load);
	if (ev->key.kind == KV_KEY_CHUNK) {
		chunk_reads += ev->type == KV_EV_READ;
		chunk_writes += ev->type == KV_EV_WRITE && ev->phase == KV_PREFILL;
		chunk_deletes += ev->type == KV_EV_DELETE;
	}
	if (ev->key.kind == KV_KEY_DOC) {
		doc_reads += ev->type == KV_EV_READ;
		doc_writes += ev->type == KV_EV_WRITE && ev->phase == KV_PREFILL;
	}
	return 0;
}

struct seen {
	unsigned ingests, normal, extra;
	bool documents_first;
};

static struct seen run(void)
{
	struct seen s = {.documents_first = true};
	struct kv_cache_opts opts;
	struct kv_planned planned;
	struct kv_request r;

	chunk_reads = chunk_writes = chunk_deletes = doc_reads = doc_writes = 0;
	kv_cache_free(cache);
	kv_params_cache(&t_kv.params, KV_UNLIMITED, true, &opts);
	T_EQ(kv_cache_new(&cache, &opts, emit, NULL), 0);
	for (t_kv_begin(); t_kv_next(&r);) {
		T_EQ(kv_plan(t_kv.load, cache, &r, NULL, NULL, &planned), 0);
		s.documents_first &= r.type != KV_REQ_INGEST || !(s.normal + s.extra);
		s.ingests += r.type == KV_REQ_INGEST;
		s.normal += r.type == KV_REQ_NORMAL;
		s.extra += r.type == KV_REQ_RAG;
		if (r.type != KV_REQ_RAG)
			continue;
		T_EQ(r.phase, KV_DECODE);
		T_OK(r.generate >= 50 && r.generate <= 200);
		T_OK(r.doc < t_kv.params.rag_docs && r.context > 512 && r.context <= 5 * 512);
		T_EQ(r.key.user, r.doc);
	}
	return s;
}

static void cache_down(void)
{
	kv_cache_free(cache);
	cache = NULL;
	teardown();
}

static unsigned all_chunks(uint32_t docs)
{
	unsigned nr = 0;

	begin();
	for (uint32_t doc = 0; doc < docs; doc++)
		nr += kv_rag_doc_chunks(&rag, doc);
	return nr;
}

static void documents_come_first_and_one_request_in_ten_asks_for_them(void)
{
	struct seen s = run();

	T_EQ(s.ingests, 10);
	T_OK(s.documents_first);
	T_EQ(chunk_writes, all_chunks(10));
	T_OK(s.extra > s.normal * 0.07 && s.extra < s.normal * 0.13);
	/* in a tenth of all requests five chunks are read */
	T_OK(chunk_reads > (s.normal + s.extra) * 0.35 &&
	     chunk_reads < (s.normal + s.extra) * 0.65);
	T_EQ(doc_writes, 10);
	T_OK(doc_reads > 2 * (s.extra - 10));
}

static void without_retrieval_there_is_none(void)
{
	struct seen s;

	t_kv.params.rag = false;
	s = run();
	T_EQ(s.ingests + s.extra + chunk_reads, 0);
	t_kv.params.rag = true;
	t_kv.params.rag_docs = 0;
	s = run();
	T_EQ(s.ingests + s.extra + chunk_reads, 0);
}

static unsigned chunks_left(void)
{
	struct kv_event ev;
	uint64_t pos = 0;
	unsigned nr = 0;

	while (kv_cache_next(cache, &pos, &ev))
		nr += ev.key.kind == KV_KEY_CHUNK;
	return nr;
}

static void chunks_of_forgotten_documents_are_given_back(void)
{
	unsigned last3;

	t_kv.params.config.rag_max_documents = 3;
	run();
	last3 = all_chunks(10) - all_chunks(7);
	T_EQ(chunks_left(), last3);
	T_EQ(chunk_deletes, all_chunks(7));
	kv_params_as_upstream(&t_kv.params);
	run();
	T_EQ(chunks_left(), all_chunks(10));
}

static const struct t_case documents[] = {
	T_CASE(chunks_add_up_to_the_document),
	T_CASE(large_models_have_shorter_documents),
	T_CASE(a_chunk_is_no_larger_than_allowed),
	T_CASE(documents_that_cannot_be_cut_are_refused),
	T_CASE(the_oldest_document_goes_when_there_are_too_many),
	T_CASE(chunks_are_distinct_and_the_first_ones_come_more_often),
	T_CASE(retrieval_can_be_uniform),
	T_CASE(a_short_document_gives_all_it_has),
};

static const struct t_case loads[] = {
	T_CASE(documents_come_first_and_one_request_in_ten_asks_for_them),
	T_CASE(without_retrieval_there_is_none),
	T_CASE(chunks_of_forgotten_documents_are_given_back),
};

static const struct t_group groups[] = {
	{"documents", setup, teardown, documents, T_COUNT(documents)},
	{"load", setup, cache_down, loads, T_COUNT(loads)},
};

int main(int argc, char **argv)
{
	return t_run(groups, T_COUNT(groups), argc > 1 ? argv + 1 : NULL);
}
