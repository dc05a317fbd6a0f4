// Writes the seed corpora: `fuzz_corpus FOLDER CONFIG`, where FOLDER is tests/fuzz/corpus and
// CONFIG a configuration of a run. The seeds are small files, each of a different form; the fuzzer
// finds others.
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/data/json.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/prepare_journal.hpp>
#include <mpt/tokenizer/train_tokenizer.hpp>
#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/ops/cuda/tuning.hpp>

#include "../support/torch_zip.hpp"

namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using nlohmann::json;

class corpus {
 public:
  corpus(fs::path folder, std::string target) : folder_(std::move(folder) / target) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void add(std::string const& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

 private:
  fs::path folder_;
};

std::string content_of(fs::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_yaml(fs::path const& root) {
  corpus const out(root, "yaml");
  out.add("empty", "");
  out.add("aliases", "a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}, e: 2}\n");
  out.add("merge", "base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}\nlist: {<<: [*base]}\n");
  out.add("references",
          "v: {n: 8}\na: ${v.n}\nb: x${v.n}y\nc: ${v}\nd: \\${literal}\ne: [1]\nf: ${e.0}\n");
  out.add("cycle", "a: ${b}\nb: ${a}\n");
  out.add("override", std::string_view("a: {b: 1}\nc: [1, 2]\n\0c.1={x: 2}", 32));
  out.add("styles",
          "a: 'single'\nb: \"d\\n\\u00e9\"\nc: |\n  block\nd: >-\n  folded\n? key\n: value\n");
  out.add("tag", "a: !!python/object:os.system x\n");
  out.add("flow", "{a: [1, {b: [2, []]}], c: ~, d: null}\n");
  out.add("two", "a: 1\n---\nb: 2\n");
  out.add("found_control_character", "a: \"\\\x01\"\n");
}

void write_config(fs::path const& root, fs::path const& config) {
  corpus const out(root, "config");
  out.add("small", content_of(config));
  out.add("smallest", R"(max_seq_len: 2
max_duration: 1ba
global_train_batch_size: 1
model: {}
tokenizer: {name: t}
optimizer: {name: decoupled_adamw, lr: 1e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0}
scheduler: {name: linear_decay_with_warmup, t_warmup: 0.1dur, t_max: 1dur, alpha_f: 0}
train_loader: {dataset: {local: d, split: s, shuffle_block_size: 7}, drop_last: false}
eval_loader: [{label: a, dataset: {local: d}}, {label: b, dataset: {local: e}}]
)");
  out.add("model", R"(max_seq_len: 128
max_duration: 3ep
global_train_batch_size: 4
device_train_microbatch_size: 2
model: {name: mpt_causal_lm, d_model: 64, n_heads: 4, n_layers: 2, expansion_ratio: 2.5, vocab_size: 300,
 logit_scale: inv_sqrt_d_model, norm_type: layernorm, attention_bias: true, resid_pdrop: 0.1,
 attn_config: {qk_ln: true, clip_qkv: 8, alibi: true, alibi_bias_max: 4, softmax_scale: 0.1, attn_impl: flash},
 init_config: {name: baseline_, init_std: 0.02, emb_init_uniform_lim: [-0.1, 0.2], init_div_is_residual: 2},
 ffn_config: {ffn_type: mptmlp, ffn_hidden_size: 100}, fc_type: {name: torch}}
tokenizer: {name: t, kwargs: {model_max_length: 128}}
optimizer: {name: decoupled_adamw}
scheduler: {name: constant_with_warmup, t_warmup: 10ba, alpha: 0.5}
train_loader: {name: text, dataset: {local: d}}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1}}
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true}
callbacks: {speed_monitor: {window_size: 10}, lr_monitor: {}}
precision: amp_bf16
save_folder: ./{run_name}/checkpoints
save_interval: 10ba
eval_interval: 0.5dur
)");
}

void write_time(fs::path const& root) {
  corpus const out(root, "time");
  for (std::string_view const text :
       {"100ba", "1ep", "2e9tok", "512sp", "0.02dur", "4_000ba", "1", "10sec", "-3ba", "1e300tok"})
    out.add("_" + std::string(text), text);
  out.add("found_too_many_epochs", "9223372036854775807");
}

void write_hf_config(fs::path const& root) {
  corpus const out(root, "hf_config");
  auto model = mpt::named_size("125m");
  out.add("foundry", mpt::to_hf_json(model, "bfloat16").dump());
  out.add("transformers", mpt::to_hf_json(mpt::hub_form(model), "float32").dump());
  model.logit_scale = 0.25;
  model.ffn_hidden_size = 100;
  model.init.emb_init_uniform_lim = {-0.25, 0.5};
  out.add("more", mpt::to_hf_json(model, "float16").dump());
  out.add(
      "least",
      R"({"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 100})");
  out.add(
      "llama",
      R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 100, "rope_parameters": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 0.5}})");
  out.add(
      "qwen3",
      R"({"model_type": "qwen3", "hidden_size": 64, "head_dim": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 100, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0, "tie_word_embeddings": true, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  out.add(
      "gpt_neox",
      R"({"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 256, "vocab_size": 100, "rotary_pct": 0.25, "hidden_act": "gelu_fast"})");
  out.add(
      "gpt2",
      R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_inner": null, "vocab_size": 100})");
}

/// Tokenizers of SentencePiece's kind, with a normalizer and with Metaspace.
void write_sentencepiece(corpus const& out) {
  auto file = json::parse(
      R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}, "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": {"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "\u2581": 3, "l": 4, "o": 5, "lo": 6, "\u2581\u2581": 7}, "merges": ["l o", "\u2581 \u2581"]}, "added_tokens": [{"id": 8, "content": "world", "single_word": true, "special": true}]})");
  out.add("sentencepiece", file.dump());
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  file["model"]["fuse_unk"] = false;
  out.add("metaspace", file.dump());
}

void write_tokenizer(fs::path const& root) {
  corpus const out(root, "tokenizer");
  auto const trained = mpt::train_tokenizer(
      std::vector<std::string>{"the dog and the cat and the dog"}, {.vocab_size = 262});
  auto file = json::parse(trained.files().json);
  out.add("small", file.dump());
  file["normalizer"] = {{"type", "NFC"}};
  file["model"]["ignore_merges"] = true;
  file["pre_tokenizer"]["add_prefix_space"] = true;
  file["added_tokens"].push_back({{"id", file["model"]["vocab"].size() + 1},
                                  {"content", "  "},
                                  {"lstrip", true},
                                  {"rstrip", true},
                                  {"normalized", true},
                                  {"special", false},
                                  {"single_word", false}});
  out.add("more", file.dump());
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", mpt::regular_expression_of(mpt::word_pattern::gpt4o)}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  file["added_tokens"].back()["single_word"] = true;
  out.add("split", file.dump());
  write_sentencepiece(out);
  out.add(
      "least",
      R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}})");
}

void write_safetensors(fs::path const& root) {
  corpus const out(root, "safetensors");
  auto const file = [](std::string header, std::string_view data) {
    return pc::pack_safetensors_header(std::move(header), 0, "corpus") + std::string(data);
  };
  out.add("empty", file("{}", ""));
  out.add(
      "two",
      file(
          R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}})",
          "12345678ab"));
  out.add(
      "metadata",
      file(
          R"({"__metadata__":{"format":"pt"},"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"n":{"dtype":"F64","shape":[0,5],"data_offsets":[2,2]}})",
          "ab"));
  out.add(
      "types",
      file(
          R"({"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"i":{"dtype":"I64","shape":[1],"data_offsets":[2,10]}})",
          "ab12345678"));
  corpus const index(root, "tensor_folder");
  index.add(
      "index",
      R"({"metadata": {"total_size": 16}, "weight_map": {"wte": "a.safetensors", "wpe": "b.safetensors"}})");
  index.add("one", R"({"weight_map": {"wte": "a.safetensors"}})");
}

void write_manifest(fs::path const& root) {
  corpus const out(root, "manifest");
  pc::manifest value;
  value.state = {{"batches", 3},
                 {"model", mpt::to_hf_json(mpt::named_size("125m"), "bfloat16")},
                 {"tokenizer", "t"},
                 {"order", {{"seed", 17}}}};
  out.add("no_files", pc::format_manifest(value, "corpus"));
  value.state["tokenizer"] = 7;
  out.add("found_tokenizer_number", pc::format_manifest(value, "corpus"));
  value.state = json::object();
  value.slices.files = {{"rank-0.safetensors", 24}};
  value.slices.tensors = {
      {"wte",
       {pc::element_type::f32,
        {2, 3},
        {{0, 2, "rank-0.safetensors", 0, 8, 1}, {2, 6, "rank-0.safetensors", 8, 16, 2}}}},
      {"step", {pc::element_type::i64, {0}, {}}}};
  out.add("slices", pc::format_manifest(value, "corpus"));
  value.slices.tensors["wte"].slices = {{0, 5, "rank-0.safetensors", 0, 16, 1, 2, 3},
                                        {2, 6, "rank-0.safetensors", 16, 8, 2, 1, 3}};
  out.add("columns", pc::format_manifest(value, "corpus"));
  out.add("local_pointer", pc::format_local_pointer({{1, 30}, 2, 0xabc}));
}

void write_mds(fs::path const& root) {
  using namespace mpt::data;
  auto const folder = fs::temp_directory_path() / "parallellm-fuzz-corpus";
  corpus const indexes(root, "mds_index");
  corpus const shards(root, "mds_shard");
  corpus const journals(root, "journal");
  for (bool const compressed : {false, true}) {
    fs::remove_all(folder);
    mds_writer writer(folder, {.columns = {{"a", "ndarray:uint8"},
                                           {"b", "int64"},
                                           {"c", "str"},
                                           {"d", "ndarray"},
                                           {"e", "json"},
                                           {"f", "ndarray:float16:2"}},
                               .compression = compressed ? "zstd" : "",
                               .hashes = {"sha1", "xxh64"}});
    std::string eight(8, '\1');
    for (int i = 0; i < 3; ++i) {
      std::vector<std::string> values{std::string("\4\3abc", 5),      eight,          "text",
                                      std::string("\x08\x04\2xy", 5), "{\"k\": [1]}", "abcd"};
      std::vector<std::string_view> const views(values.begin(), values.end());
      static_cast<void>(writer.write(views));
    }
    writer.finish();
    auto const kind = std::string(compressed ? "zstd" : "raw");
    auto const index = content_of(folder / "index.json");
    indexes.add(kind, index);
    auto const parsed = parse_mds_index(index, "index.json");
    auto const& file = compressed ? *parsed[0].zip : parsed[0].raw;
    std::string head{static_cast<char>(parsed[0].samples), static_cast<char>(compressed)};
    detail::store(head, static_cast<std::uint32_t>(parsed[0].raw.bytes));
    shards.add(kind, head + content_of(folder / file.basename));
    json const line{{"shard", parsed[0].to_json()},
                    {"file", 0},
                    {"document", 3},
                    {"offset", 1},
                    {"before", {{"documents", 2}, {"bytes", 100}, {"tokens", 30}}}};
    journals.add(kind, "{\"tokenizer\": \"t\"}\n" + python_json(line) + "\n");
  }
  journals.add("begun", "{\"tokenizer\": \"t\"}\n");
  fs::remove_all(folder);
}

void write_icl_tasks(fs::path const& root) {
  corpus const out(root, "icl_task");
  auto const kind = [](unsigned value, std::string_view rest) {
    return std::string(1, static_cast<char>(value)).append(rest);
  };
  out.add("language_modeling",
          kind(0x40,
               "{\"context\": \" In the mill \", \"continuation\": \"a map\"}\n"
               "{\"context\": \"On the \\u00e9tang\", \"continuation\": \"a key \"}\n"));
  out.add("multiple_choice",
          kind(0x85,
               "{\"query\": \"What?\", \"choices\": [\"a\", \" few\"], \"gold\": 1, "
               "\"category\": \"x\"}\n{\"query\": \"Who?\", \"choices\": [\"b\"], "
               "\"gold\": 0, \"category\": \"y\"}\n"));
  out.add("schema", kind(0x4A,
                         "{\"context_options\": [\"a few\", \"more\"], \"gold\": 0, "
                         "\"continuation\": \"words.\"}\n"));
  out.add("generation",
          kind(0xD3,
               "{\"context\": \"How many?\", \"answer\": \"5\", \"aliases\": [\"five\"], "
               "\"chain_of_thought\": \"2 and 3.\"}\n{\"context\": \"And now?\", "
               "\"answer\": \"6\", \"chain_of_thought\": \"\"}\n"));
}

std::string gzip(std::string_view text) {
  ::z_stream stream{};
  parallel::require(::deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK,
                    "zlib");
  std::string out(text.size() + 100, '\0');
  std::string copy(text);
  stream.next_in = reinterpret_cast<unsigned char*>(copy.data());
  stream.avail_in = static_cast<unsigned>(copy.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

void write_documents(fs::path const& root) {
  corpus const out(root, "documents");
  auto const kind = [](int value, std::string_view rest) {
    return std::string(1, static_cast<char>(value)).append(rest);
  };
  std::string const rows =
      "{\"text\": \"a \\u00e9\", \"n\": [1, {}]}\n\n{\"id\": 1, \"text\": \"b\"}\n{\"text\": 5}";
  std::string prose;
  for (int i = 0; i < 12; ++i)
    prose += "A line of caf\xc3\xa9 prose.\n" + std::string(i % 3 == 0 ? "\n" : "");
  out.add("plain", kind(0, prose));
  out.add("rows", kind(1, rows));
  out.add("plain_gzip", kind(2, gzip(prose)));
  out.add("rows_gzip", kind(3, gzip(rows) + gzip(rows)));
  out.add("plain_zstd", kind(4, mpt::data::detail::zstd_compress(prose, 3)));
  out.add("rows_zstd", kind(5, mpt::data::detail::zstd_compress(rows, 3)));
  out.add("sniffed_gzip", kind(6, gzip(rows)));
  out.add("sniffed_zstd", kind(7, mpt::data::detail::zstd_compress(rows, 3)));
}

void write_kernel_tuning(fs::path const& root) {
  corpus const out(root, "kernel_tuning");
  parallel::cuda::kernel_tuning tables{
      parallel::cuda::matmul_tuning("a library on a device"),
      parallel::cuda::attention_tuning("another library on a device")};
  out.add("empty", to_text(tables));
  auto& table = tables.products;
  table.set({.m = 7, .n = 5, .k = 3, .transpose_b = true}, {.words = {1, ~0ULL}});
  out.add("one", to_text(tables));
  tables.attention.set({.batch = 2, .sequence = 8, .heads = 4, .key_heads = 2, .head_dim = 64}, 2);
  table.set({.m = 2304,
             .n = 768,
             .k = 32768,
             .transpose_a = true,
             .accumulate = true,
             .input = parallel::dtype::bf16,
             .alignment_c = 4},
            {.words = {2}, .guess = 15});
  out.add("two", to_text(tables));
}

void write_torch(fs::path const& root) {
  corpus const pickles(root, "pickle");
  corpus const files(root, "torch_file");  // makes the folder
  auto const tensor = [](std::string_view type, std::int64_t first) {
    auto out = test::pickle_code("").text("w").tensor(type, "0", 4, {2, 1}, first).stop();
    out.pop_back();  // the stop
    return out;
  };
  auto const plain = test::pickle_code().raw("}(").raw(tensor("FloatStorage", 2)).raw("u").stop();
  auto const named = test::pickle_code()
                         .global("collections", "OrderedDict")
                         .raw(")Rq\x01(")
                         .raw(tensor("BFloat16Storage", 0))
                         .raw("u}")
                         .text("_metadata")
                         .raw("}sb")
                         .stop();
  auto const composer = test::pickle_code()
                            .raw("}")
                            .text("state")
                            .raw("}(")
                            .text("model")
                            .raw("}(")
                            .raw(tensor("FloatStorage", 0))
                            .raw("u")
                            .text("integrations")
                            .raw("}")
                            .text("huggingface")
                            .raw("}")
                            .text("model")
                            .raw("}")
                            .text("config")
                            .raw("}")
                            .text("content")
                            .raw("}")
                            .text("model_type")
                            .text("mpt")
                            .raw("sssssus")
                            .stop();
  auto const values = test::pickle_code("\x80\x04")
                          .raw(
                              "](K\x01M\x02\x03J1234G12345678\x8a\x02\xff\xffN\x88\x89"
                              "C\x02xy\x8f\x94)\x85\x86\x87h")
                          .raw(std::string(1, '\0'))
                          .raw("e")
                          .stop();
  pickles.add("plain", plain);
  pickles.add("named", named);
  pickles.add("composer", composer);
  pickles.add("values", values);
  for (auto const& [name, code] :
       {std::pair{"plain", plain}, {"named", named}, {"composer", composer}}) {
    auto const path = root / "torch_file" / name;
    test::write_zip(
        path, {{"m/data.pkl", code}, {"m/byteorder", "little"}, {"m/data/0", "1234567812345678"}});
  }
  test::write_zip(root / "torch_file" / "compressed",
                  {{"m/data.pkl", plain, true}, {"m/data/0", "1234567812345678", true}});
}

void write_chats(fs::path const& root) {
  corpus const out(root, "chat_template");
  auto const pair = [&](std::string const& name, std::string config, std::string_view messages) {
    out.add(name, config.append(1, '\0').append(messages));
  };
  pair("text", R"({"chat_template": "{{ messages }}", "bos_token": {"content": "<s>"}})",
       R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])");
  pair("list", R"({"chat_template": [{"name": "default", "template": "x"}], "eos_token": null})",
       R"([{"role": "system", "content": ""}, {"role": "user", "content": "<|im_end|>"},
 {"role": "assistant", "content": "a"}, {"role": "tool", "content": "t"},
 {"role": "assistant", "content": "\u00e9"}])");
  pair("wrong", R"({"chat_template": [{"name": "default"}, 3]})",
       R"([{"role": "user", "content": "q"}, {"role": "user", "content": "q"}])");
  out.add("none", R"({"chat_template": null})");
}

void write_finetuning(fs::path const& root) {
  auto const kind = [](int format, int preprocessor, std::string_view rest) {
    return std::string({static_cast<char>(format), static_cast<char>(preprocessor)}).append(rest);
  };
  corpus const rows(root, "finetuning_rows");
  std::string const lines =
      "{\"prompt\": \"the \\u00e9\", \"response\": \"fox\"}\n\n{\"completion\": \"b\", "
      "\"prompt\": \"a\"}\n{\"prompt\": 5}";
  std::string const chat =
      "[{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
      "\"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]},\n {\"messages\": "
      "[]}]\n";
  std::string const table = "prompt,response\r\n\"the, \"\"fox\"\"\n\",dog\n\na,\nb\n";
  rows.add("lines", kind(0, 0, lines));
  rows.add("chat", kind(1, 0, chat));
  rows.add("table", kind(2, 0, table));
  rows.add("lines_gzip", kind(3, 0, gzip(lines)));
  rows.add("table_zstd", kind(4, 0, mpt::data::detail::zstd_compress(table, 3)));
  rows.add("alpaca", kind(0, 1, "{\"text\": \"p ### Response: r\"}"));
  rows.add("dolly", kind(0, 2, R"({"instruction": "i", "input": "c", "output": "o"})"));
  rows.add("p3", kind(0, 3, R"({"inputs": "i", "targets": "t"})"));
  rows.add("flan", kind(0, 4, R"({"inputs": "i ", "targets": "t"})"));
  rows.add("hermes", kind(0, 5, R"({"conversations": [{"from": "human", "value": "q"},
 {"from": "gpt", "value": "a"}]})"));
  rows.add("questions", kind(0, 6, R"({"Q": "q", "A": "a"})"));
  corpus const set(root, "finetuning_set");
  auto const sample = [](int choice, std::vector<std::string> const& columns) {
    std::string out(1, static_cast<char>(choice));
    for (auto const& one : columns)
      mpt::data::detail::store(out, static_cast<std::uint32_t>(one.size()));
    for (auto const& one : columns) out += one;
    return out;
  };
  set.add("turns", sample(0, {R"([{"input_ids": [1, 2], "labels": [3, 0]}])"}));
  set.add("text", sample(1, {"the fox", "a dog"}));
  set.add("messages", sample(2, {R"([{"role": "user", "content": "q"},
 {"role": "assistant", "content": "a"}])"}));
  set.add("raw_uint8", sample(3, {"\x01\x02\x03", "\x04"}));
  set.add("raw_int64", sample(8 * 9 + 3, {std::string("\x07\0\0\0\0\0\0\0", 8), ""}));
  set.add("arrays", sample(4, {std::string("\x10\x04\x02\x01\0\x02\0", 7),
                               std::string("\x04\x01\x05\0\0\0", 6)}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  fs::path const root = argv[1];
  write_yaml(root);
  write_config(root, argv[2]);
  write_time(root);
  write_hf_config(root);
  write_tokenizer(root);
  write_safetensors(root);
  write_manifest(root);
  write_mds(root);
  write_documents(root);
  write_kernel_tuning(root);
  write_torch(root);
  write_finetuning(root);
  write_chats(root);
  write_icl_tasks(root);
}
