// The messages for malformed input. docs/errors.md is the table of those that are a text: the page
// shows a text in backquotes, and the test checks the message beside it. What is too large for the
// page, or no text, is made here, under the words by which the page names it. For a new text write
// a row into the page; when a message changes, copy the errors.md that the test writes into its
// working directory over docs/errors.md.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/eval/icl_rows.hpp>
#include <mpt/finetune/batch_order.hpp>
#include <mpt/finetune/find_files.hpp>
#include <mpt/finetune/read_examples.hpp>
#include <mpt/finetune/stitch_turns.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/train/checkpoint/possible_counters.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/checkpoint/format/tensor_folder.hpp>
#include <parallel/checkpoint/local/local_pointer.hpp>
#include <support/torch_zip.hpp>
#include "../../src/process/exit_code.hpp"

namespace malformed_test {
namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using data_test::put_file;
using nlohmann::json;

std::string with_replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto i = text.find(from); i != text.npos; i = text.find(from, i + to.size()))
    text.replace(i, from.size(), to);
  return text;
}

/// One row: the malformed input, and the message for it.
struct row {
  std::string input;
  std::string message;
};

/// A group of rows with its heading. `folder` holds the group's files; messages do not show its
/// name.
struct group {
  explicit group(std::string name) : heading(std::move(name)) {}

  /// Adds a row with the message of the error that `action` throws.
  template <class Action>
  void add(std::string const& input, Action const& action) {
    rows.push_back({input, message_without_folder(action)});
  }
  /// The message of the error that `action` throws, without the folder's name.
  template <class Action>
  [[nodiscard]] std::string message_without_folder(Action const& action) const {
    auto const name = folder.path().native();
    auto const message = with_replaced(data_test::message_of(action), name + "/", "");
    return with_replaced(message, name, "FOLDER");
  }

  std::string heading;
  data_test::scratch_folder folder;
  std::vector<row> rows;
};

/// Escapes text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  return with_replaced(with_replaced(std::string(text), "|", "\\|"), "\n", "⏎");
}

std::string code(std::string_view text) {
  // no text of this test ends in a backquote
  return "`" + std::string(text) + "`";
}

fs::path page() { return fs::path(__FILE__).parent_path() / "../../docs/errors.md"; }

/// What the page shows as given in a row: words, or a text in backquotes with words around it.
struct shown_input {
  std::string cell, before, text, after;
};

/// The inputs that the page shows under a heading, the first one to the last.
std::vector<shown_input> shown_inputs(std::string const& heading) {
  std::vector<shown_input> out;
  std::istringstream lines(data_test::get_file(page()));
  bool is_in_group = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) is_in_group = line == "## " + heading;
    if (!is_in_group || !line.starts_with("| ") || line == "| given | message |") continue;
    shown_input input{
        .cell = with_replaced(with_replaced(line.substr(2, line.find(" | ") - 2), "\\|", "|"), "⏎",
                              "\n")};
    auto const begin = input.cell.find('`'), end = input.cell.rfind('`');
    if (begin != std::string::npos && begin < end) {
      input.before = input.cell.substr(0, begin);
      input.text = input.cell.substr(begin + 1, end - begin - 1);
      input.after = input.cell.substr(end + 1);
    }
    out.push_back(input);
  }
  return out;
}

/// The texts that the page names by words, by these words.
using named_texts = std::map<std::string, std::string>;

/// The text of a row: the shown one, or the one of `named` that its words name.
std::string text_of(shown_input const& input, named_texts const& named, std::string const& words) {
  if (auto const entry = named.find(words); entry != named.end()) return entry->second;
  REQUIRE_MESSAGE(input.cell.find('`') != std::string::npos, "no text is named so: ", input.cell);
  return input.text;
}

void add_yaml(group& out) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    auto const reference = "*a" + std::to_string(i - 1);
    laughs += parallel::concat("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) laughs += (k == 0 ? "" : ", ") + reference;
    laughs += "]\n";
  }
  named_texts const named = {{"a NUL byte", std::string("a: \0", 4)},
                             {"33 nested lists", std::string(33, '[') + std::string(33, ']')},
                             {"aliases of aliases that stand for 10⁹ values", laughs},
                             {"a scalar of 20 000 bytes", "a: " + std::string(20'000, 'x')},
                             {"a file of more than 1 MiB", std::string((1 << 20) + 1, ' ')}};
  for (auto const& input : shown_inputs(out.heading))
    out.add(input.cell, [&] {
      auto const text = text_of(input, named, input.cell);
      if (input.after.empty()) return static_cast<void>(mpt::make_document(text, "run.yaml"));
      static_cast<void>(mpt::make_document("a: {b: [1]}", "run.yaml", std::vector{text}));
    });
}

/// The smallest configuration, one line per key, with one line replaced or added.
std::string config_with(std::string const& key, std::string const& line) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"max_seq_len", "max_seq_len: 64"},
      {"max_duration", "max_duration: 10ba"},
      {"global_train_batch_size", "global_train_batch_size: 8"},
      {"model", "model: {d_model: 64, n_heads: 4, n_layers: 2, max_seq_len: 64}"},
      {"tokenizer", "tokenizer: {name: t}"},
      {"optimizer", "optimizer: {name: decoupled_adamw}"},
      {"scheduler", "scheduler: {name: cosine_with_warmup, t_warmup: 2ba}"},
      {"train_loader", "train_loader: {dataset: {local: d}}"}};
  std::string text;
  bool replaced = false;
  for (auto const& [name, old] : lines) {
    bool const is_key = name == key;
    replaced = replaced || is_key;
    if (is_key && line.empty()) continue;
    text += (is_key ? line : old) + "\n";
  }
  return replaced ? text : text + line + "\n";
}

void add_config(group& out) {
  for (auto const& [cell, before, text, after] : shown_inputs(out.heading)) {
    auto const document =
        before == "no " ? config_with(text, "") : config_with(text.substr(0, text.find(':')), text);
    out.add(cell, [&] {
      static_cast<void>(mpt::read_train_config(mpt::make_document(document, "run.yaml")));
    });
  }
}

void add_hf(group& out) {
  for (auto const& input : shown_inputs(out.heading)) {
    put_file(out.folder / "config.json", input.text);
    out.add(input.cell, [&] { (void)mpt::read_hf_config(out.folder / "config.json"); });
  }
}

void add_tokenizer(group& out) {
  auto const good = json::parse(tokenizer_test::small_tokenizer().files().json);
  auto const read = [&](std::string const& input, std::string const& text) {
    out.add(input, [&] { (void)mpt::read_tokenizer_json(text, "tokenizer.json"); });
  };
  auto const add = [&](std::string const& input, auto const& change) {
    auto file = good;
    change(file);
    read(input, file.dump());
  };
  read("half a file", R"({"version": "1.0", "model": {"vo)");
  add("no `model`", [](json& file) { file.erase("model"); });
  add("`\"type\": \"Unigram\"`", [](json& file) { file["model"]["type"] = "Unigram"; });
  add("BPE dropout", [](json& file) { file["model"]["dropout"] = 0.1; });
  add("no token for a byte", [](json& file) { file["model"]["vocab"].erase("!"); });
  add("two tokens with one id", [](json& file) { file["model"]["vocab"]["zz"] = 5; });
  add("an id of 10¹²", [](json& file) { file["model"]["vocab"]["zz"] = 1'000'000'000'000; });
  add("a merge of three", [](json& file) { file["model"]["merges"][0] = "a b c"; });
  add("a merge of unknown tokens", [](json& file) { file["model"]["merges"][0] = "a zz"; });
  add("an added token listed twice",
      [](json& file) { file["added_tokens"].push_back(file["added_tokens"][0]); });
  add("a normalizer that lowercases", [](json& file) {
    file["normalizer"] = {{"type", "Lowercase"}};
  });
  add("an unknown split pattern", [](json& file) {
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {{{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}}}}};
  });
}

void add_safetensors(group& out) {
  named_texts const named = {{"an empty file", ""},
                             {"a text file", "This is no safetensors file, but some text."},
                             {"a header cut short", std::string("\x40\0\0\0\0\0\0\0{\"a\":", 13)}};
  for (auto const& input : shown_inputs(out.heading)) {
    auto text = text_of(input, named, input.cell);
    if (!input.text.empty())  // ", N bytes of data"
      text = pc::pack_safetensors_header(text, 0, "test") +
             std::string(std::stoul(input.after.substr(2)), '1');
    put_file(out.folder / "w.safetensors", text);
    out.add(input.cell, [&] { pc::safetensors_file const file(out.folder / "w.safetensors"); });
  }
}

void add_folder(group& out) {
  auto const& folder = out.folder;
  auto const add = [&](std::string const& input, auto const& action) { out.add(input, action); };
  auto const open = [&] { pc::tensor_folder const tensors(folder.path()); };
  add("an empty folder", open);
  put_file(folder / "model.safetensors.index.json", R"({"weight_map": {"a": "../a.safetensors"}})");
  add("an index that names `../a.safetensors`", open);
  put_file(folder / "model.safetensors.index.json", R"({"weight_map": {"a": "a.safetensors"}})");
  add("an index that names a file that is not there", open);

  auto const checkpoint = folder / "ep0-ba10";
  auto const read = [&] { mpt::model_source const source(checkpoint); };
  put_file(checkpoint / "manifest.json", "{}");
  add("a manifest cut short", read);
  auto const sealed = [&](pc::manifest const& value) {
    put_file(checkpoint / "manifest.json", pc::format_manifest(value, "test"));
  };
  pc::manifest manifest;
  manifest.state = json::object();
  manifest.slices.files = {{"rank-0.safetensors", 16}};
  sealed(manifest);
  auto const inspect = [&] { static_cast<void>(pc::read_manifest(checkpoint)); };
  add("a file of the checkpoint is missing", inspect);
  put_file(checkpoint / "rank-0.safetensors", "1234");
  add("a file of the checkpoint is cut short", inspect);
  put_file(checkpoint / "rank-0.safetensors", "1234567812345678");
  add("a checkpoint of something else", read);
  manifest.slices.tensors["wte"] = {
      pc::element_type::f32, {4}, {{0, 2, "rank-0.safetensors", 0, 8, 0}}};
  sealed(manifest);
  add("a slice that nobody saved", read);

  auto const count = [&](std::string const& input, json const& state) {
    add(input, [&] {
      mpt::training_clock const clock{.tokens_per_batch = 64, .batches_per_epoch = 16};
      mpt::require_possible_counters(state, clock, checkpoint);
    });
  };
  auto const counted =
      json::parse(R"({"batches": 10, "epoch": 0, "batch_in_epoch": 10, "tokens": 640})");
  auto const miscounted = [&](char const* key, json const& number) {
    auto state = counted;
    state[key] = number;
    count(code(parallel::concat('"', key, "\": ", number.dump())) + " after 10 batches", state);
  };
  miscounted("batches", -1);
  miscounted("epoch", 1U);
  miscounted("batch_in_epoch", 3U);
  miscounted("tokens", 641U);

  auto const point = [&] { static_cast<void>(pc::read_local_pointer(folder.path())); };
  put_file(folder / "local.json", "");
  add("an empty `local.json`", point);
  put_file(folder / "local.json", R"({"checkpoint": "latest"})");
  add("a `local.json` that names no checkpoint", point);
}

void add_torch(group& out) {
  auto const path = out.folder / "m.bin";
  auto const add = [&](std::string const& input) {
    out.add(input, [&] {
      mpt::hf::torch_file const file(path);
      std::vector<float> one(1);
      file.read(file.tensors().at("w"), 0, std::span(one));
    });
  };
  auto const add_pickle = [&](std::string const& input, std::string const& pickle,
                              test::zip_member const& data = {"m/data/0", "12345678"}) {
    test::write_zip(path, {{"m/data.pkl", pickle}, data});
    add(input);
  };
  auto const weight = [](std::string_view type, std::int64_t stored, std::int64_t size,
                         std::int64_t first) {
    return test::pickle_code()
        .raw("}")
        .text("w")
        .tensor(type, "0", stored, {size}, first)
        .raw("s")
        .stop();
  };
  auto const good = weight("FloatStorage", 2, 2, 0);
  add("none");
  put_file(path, "\x80\x02}q");
  add("a bare pickle");
  test::write_zip(path, {{"m/data.pkl", good}, {"m/data/0", "12345678"}});
  auto const whole = data_test::get_file(path);
  put_file(path, whole.substr(0, whole.size() / 2));
  add("cut short");
  add_pickle("a pickle that calls os.system",
             test::pickle_code().global("os", "system").raw("(").text("id").raw("tR").stop());
  add_pickle("a pickle that makes an object by its class",
             test::pickle_code().raw("(ios\nf\n").stop());
  add_pickle("a pickle cut short", good.substr(0, good.size() - 4));
  add_pickle("a pickle of a number", test::pickle_code().integer(1).stop());
  add_pickle("a million lists", test::pickle_code().raw(std::string((1 << 20) + 1, ']')).stop());
  add_pickle("a tensor beyond its storage", weight("FloatStorage", 2, 2, 1));
  add_pickle("a storage without its bytes", weight("FloatStorage", 4, 2, 0));
  add_pickle("bytes of another name", good, {"m/data/1", "12345678"});
  add_pickle("a tensor of integers", weight("LongStorage", 1, 1, 0));
  add_pickle("zeros, 2 MiB of them compressed", good,
             {"m/data/0", std::string(std::size_t{1} << 21, '\0'), true});
  test::write_zip(path, {{"word/document.xml", "x"}});
  add("a zip file of something else");
}

void add_mds(group& out) {
  using namespace mpt::data;
  auto const& folder = out.folder;
  {
    mds_writer writer(folder.path(),
                      {.columns = {{"tokens", "ndarray:int32"}}, .hashes = {"xxh64"}});
    std::string const value("\x04\2abcdefgh", 10);
    std::string_view const values[] = {value};
    (void)writer.write(values);
    writer.finish();
  }
  auto const index = data_test::get_file(folder / "index.json");
  auto const shard = data_test::get_file(folder / "shard.00000.mds");
  auto const verify = [&](std::string const& input, std::string const& new_index,
                          std::string const& new_shard) {
    put_file(folder / "index.json", new_index);
    put_file(folder / "shard.00000.mds", new_shard);
    out.add(input, [&] { (void)mds_reader(folder.path()).verify(); });
  };
  auto const changed = [](std::string text, std::string_view from, std::string_view to) {
    auto const position = text.find(from);
    REQUIRE(position != text.npos);
    return text.replace(position, from.size(), to);
  };
  auto const bad_index = [&](std::string_view from, std::string_view to) {
    verify(code(std::string(to)) + " in index.json", changed(index, from, to), shard);
  };
  fs::remove(folder / "index.json");
  out.add("no index.json", [&] { mds_reader const reader(folder.path()); });
  verify("half an index.json", index.substr(0, 100), shard);
  bad_index("\"version\": 2}", "\"version\": 3}");
  bad_index("shard.00000.mds", "../../etc/passwd");
  bad_index("ndarray:int32", "ndarray:int33");
  bad_index("ndarray:int32", "pickle");
  bad_index("\"samples\": 1", "\"samples\": 4000000000");
  auto const listed = json::parse(index);
  auto twice = listed;
  twice["shards"].push_back(listed["shards"][0]);
  verify("a shard listed twice", twice.dump(), shard);
  verify("a shard cut short", index, shard.substr(0, shard.size() - 1));
  verify("one bit of a shard changed", index, changed(shard, "abc", "abb"));
  auto const unhashed = changed(index, "xxh64\": \"", "md5\": \"");
  verify("a sample count that differs", unhashed, std::string("\2", 1) + shard.substr(1));
  verify("an offset beyond the file", unhashed, shard.substr(0, 8) + "\x7f" + shard.substr(9));
  auto const first = detail::load<std::uint32_t>(shard.data() + 4);
  verify("a column longer than its sample", unhashed,
         changed(shard, shard.substr(first, 4), std::string("\xff\0\0\0", 4)));
  constexpr std::size_t large = std::size_t{65} << 20;
  auto bomb = listed;
  bomb["shards"][0]["compression"] = "zstd";
  bomb["shards"][0]["hashes"] = json::array();
  bomb["shards"][0]["raw_data"] = {
      {"basename", "shard.00000.mds"}, {"bytes", large}, {"hashes", json::object()}};
  auto const packed = mpt::data::detail::zstd_compress(std::string(large, '\0'), 1);
  bomb["shards"][0]["zip_data"] = {
      {"basename", "shard.00000.mds.zstd"}, {"bytes", packed.size()}, {"hashes", json::object()}};
  fs::remove(folder / "shard.00000.mds");
  put_file(folder / "index.json", bomb.dump());
  put_file(folder / "shard.00000.mds.zstd", packed);
  out.add("a compressed shard that becomes 30 000 times its size",
          [&] { (void)mds_reader(folder.path()).sample(0); });
}

void add_text(group& out) {
  auto const packed = mpt::data::detail::zstd_compress(std::string(1000, 'x'), 3);
  std::map<std::string, std::pair<char const*, std::string>> const named = {
      // file, content
      {"UTF-16 in a .txt", {"a.txt", std::string("\xFF\xFEh\0i\0", 6)}},
      {"Latin-1 in a .jsonl", {"a.jsonl", "{\"text\": \"caf\xe9\"}"}},
      {"a .gz that is none", {"a.jsonl.gz", "not compressed"}},
      {"a .zst cut short", {"a.txt.zst", packed.substr(0, packed.size() - 2)}},
      {"a .zst that becomes 10 000 times its size",
       {"a.txt.zst", mpt::data::detail::zstd_compress(std::string(std::size_t{1} << 27, ' '), 1)}},
      {"an empty .zst", {"a.txt.zst", ""}}};
  for (auto const& input : shown_inputs(out.heading)) {
    auto file = out.folder.path();
    if (input.cell == "a file that is not there") {
      file /= "none.txt";
    } else if (input.cell != "a folder") {
      auto const entry = named.find(input.cell);
      file /= entry == named.end() ? "a.jsonl" : entry->second.first;
      put_file(file, entry == named.end() ? input.text : entry->second.second);
    }
    out.add(input.cell, [&] {
      mpt::data::document_reader reader(file);
      std::string document;
      while (reader.next(document))
        if (reader.format() == mpt::data::text_format::json_lines)
          (void)mpt::data::text_of_row(document, reader.name(), reader.line());
    });
  }
}

void add_finetuning(group& out) {
  namespace ft = mpt::finetune;
  auto const& folder = out.folder;
  auto const tokens = tokenizer_test::small_tokenizer();
  named_texts const named = {{"Latin-1", "{\"prompt\": \"caf\xe9\", \"response\": \"b\"}"},
                             {"66 nested lists", "{\"prompt\": " + std::string(66, '[')},
                             {"a prompt of more than max_seq_len tokens",
                              R"({"prompt": "one two three four five", "response": "b"})"},
                             {"nothing", ""},
                             {"an object over several lines", "{\n  \"prompt\": \"a\"\n}"}};
  for (auto const& input : shown_inputs(out.heading)) {
    auto const& cell = input.cell;
    auto const file = cell.rfind(" in a.");   // "GIVEN in FILE", "`TEXT` as PREPROCESSOR in FILE"
    if (file == std::string::npos) continue;  // no text of a file
    auto const path = folder / cell.substr(file + 4);
    put_file(path, text_of(input, named, cell.substr(0, file)));
    auto const how = input.after.substr(0, input.after.rfind(" in a."));
    out.add(cell, [&] {
      auto const preprocess = how.starts_with(" as ") ? ft::named_preprocessor(how.substr(4))
                              : how.empty()           ? ft::preprocessor()
                                                      : ft::column_mapping("question", "answer");
      (void)ft::read_examples({.files = {path}, .preprocess = preprocess, .max_seq_len = 8},
                              tokens);
    });
  }
  auto const find = [&](std::string const& shown, ft::file_names const& names) {
    out.add(shown, [&] { (void)ft::find_files(names); });
  };
  find("hf_name `mosaicml/dolly_hhrlhf`", {.name = "mosaicml/dolly_hhrlhf", .split = "train"});
  find("hf_name `json` alone", {.name = "json", .split = "train"});
  find("a folder and split `test`", {.name = folder.path().native(), .split = "test"});
  find("split `train[:5%]`", {.name = folder.path().native(), .split = "train[:5%]"});
  out.add("preprocessing_fn `pkg.mod:fn`", [] { (void)ft::named_preprocessor("pkg.mod:fn"); });
  out.add("preprocessing_fn `dolly`", [] { (void)ft::named_preprocessor("dolly"); });
  out.add("target_prompts `length>=x`", [] { (void)ft::read_target_policy("length>=x", "last"); });
  put_file(folder / "a.jsonl", R"({"prompt": "a", "response": "b"})");
  out.add("a tokenizer without an end-of-text token", [&] {
    mpt::tokenizer const endless(
        {.json = tokens.files().json, .config = R"({"eos_token": null})", .source = {}});
    (void)ft::read_examples({.files = {folder / "a.jsonl"}}, endless);
  });
  out.add("packing_ratio `0.5`", [] {
    ft::batch_order({1, 1}, {.rows = 1, .packing_ratio = 0.5});
  });
  out.add("3 examples for a batch of 4", [] { ft::batch_order({1, 1, 1}, {.rows = 4}); });
}

void add_task(group& out) {
  auto const file = out.folder / "t.jsonl";
  for (auto const& input : shown_inputs(out.heading)) {
    put_file(file, input.text);
    mpt::eval::task_config task;
    task.file = file;
    using enum mpt::eval::task_kind;
    for (auto const kind : {language_modeling, multiple_choice, schema, generation})
      if (input.before == std::string(to_string(kind)) + ": ") task.kind = kind;
    // a row with all that the kind asks for lacks what categories ask for
    task.has_categories = input.text == R"({"context": "a", "continuation": "b"})";
    out.add(input.cell, [&] { (void)mpt::eval::read_task_rows(task); });
  }
}

std::string document_of(std::deque<group> const& groups) {
  std::string text =
      "# What bad input gets\n\n"
      "Every file and argument is checked before it is used, and an error is reported in\none "
      "message: what is wrong, where, what was expected, what to do. A program prints it after "
      "`error: `\nand ends with the status of its cause. This page is made by "
      "`tests/mpt/malformed_test.cpp`, which fails when\nit no longer holds. Line ends are shown "
      "as ⏎.\n\n"
      "## The status a program ends with\n\n| status | cause | what to do |\n|---|---|---|\n";
  for (auto const& [code, cause, what_to_do] : apps::exit_codes)
    text += "| " + std::to_string(static_cast<int>(code)) + " | " + cell(cause) + " | " +
            cell(what_to_do) + " |\n";
  text +=
      "\nA process that the system kills (128 and the signal's number: 137 by SIGKILL, often for "
      "memory; 139 by\na segmentation fault) says nothing itself; where ranks are processes, the "
      "others or mpirun name it.\nWhere memory is limited (ulimit -v, ulimit -d), a segmentation "
      "fault is an error with status 5.\n";
  for (auto const& group : groups) {
    text += "\n## " + group.heading + "\n\n| given | message |\n|---|---|\n";
    for (auto const& [input, message] : group.rows)
      text += "| " + cell(input) + " | " + cell(message) + " |\n";
  }
  return text;
}

TEST_CASE("malformed input: docs/errors.md holds the messages of this test") {
  std::deque<group> groups;
  for (auto const& [heading, add_rows] :
       std::initializer_list<std::pair<char const*, void (*)(group&)>>{
           {"A configuration that is not good YAML", add_yaml},
           {"A configuration that says something wrong", add_config},
           {"A Hugging Face `config.json`", add_hf},
           {"A `tokenizer.json`", add_tokenizer},
           {"An MDS set", add_mds},
           {"Text to prepare", add_text},
           {"Finetuning data that cannot be read, or learnt from", add_finetuning},
           {"Tasks of in-context learning", add_task},
           {"A safetensors file", add_safetensors},
           {"A folder of weights, a checkpoint", add_folder},
           {"A pytorch_model.bin, a Composer checkpoint", add_torch}})
    add_rows(groups.emplace_back(heading));
  std::size_t rows = 0;
  for (auto const& group : groups)
    for (auto const& row : group.rows) {
      auto const& [input, message] = row;
      ++rows;
      CAPTURE(row.input);
      CHECK(!message.empty());
      CHECK(message.size() < 400);  // about three lines
    }
  CHECK(rows >= 150);
  auto const text = document_of(groups);
  bool const is_current = data_test::get_file(page()) == text;
  if (!is_current) put_file(fs::current_path() / "errors.md", text);
  CHECK_MESSAGE(is_current, "docs/errors.md differs from ",
                (fs::current_path() / "errors.md").string());
}

}  // namespace
}  // namespace malformed_test
