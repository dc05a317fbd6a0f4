#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mpt/data/hash.hpp>
#include <mpt/data/prepare.hpp>
#include <mpt/data/scratch.hpp>
#include <mpt/data/token_dataset.hpp>
#include <optional>
#include <parallel/core/philox.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace prepare_test {

using data_test::contains;
using data_test::get_folder;
using data_test::message_of;
using mpt::data::prepare;
using mpt::data::prepare_options;
using mpt::data::prepare_progress;
using mpt::data::prepare_result;
using mpt::data::prepare_status;

/// A tokenizer for tests: the id of a byte is its value plus 1; id 0 ends documents.
inline mpt::data::text_encoder bytes_as_ids() {
  return [](std::string_view text, std::vector<std::int32_t>& out) {
    for (char const byte : text) out.push_back(static_cast<unsigned char>(byte) + 1);
  };
}

inline std::string document_text(int document) {
  std::string text;
  for (int i = 0; i < document * 37 % 101; ++i)
    text += static_cast<char>('a' + (document + i) % 26);
  return text;
}

/// 120 documents in three files of different formats, written as some 50 small shards.
inline prepare_options options_in(std::filesystem::path const& folder) {
  std::string rows[3];
  for (int i = 0; i < 120; ++i) rows[i / 40] += "{\"text\": \"" + document_text(i) + "\"}\n";
  data_test::put_file(folder / "in/a.jsonl", rows[0]);
  std::string packed(ZSTD_compressBound(rows[1].size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), rows[1].data(), rows[1].size(), 3));
  data_test::put_file(folder / "in/b.jsonl.zst", packed);
  ::gzFile const gz = ::gzopen((folder / "in/c.json.gz").c_str(), "wb");
  ::gzwrite(gz, rows[2].data(), static_cast<unsigned>(rows[2].size()));
  ::gzclose(gz);

  prepare_options out;
  out.inputs = {folder / "in/a.jsonl", folder / "in/b.jsonl.zst", folder / "in/c.json.gz"};
  out.out_root = folder / "out";
  out.tokenizer = "bytes";
  out.concat = {.sample_ids = 16, .eos = {0}};
  out.size_limit = 800;
  out.batch_bytes = 300;
  return out;
}

inline prepare_result run(prepare_options const& options) { return prepare(options, bytes_as_ids); }

/// The output of an uninterrupted run.
inline std::map<std::string, std::string> expected_for(prepare_options options,
                                                       std::filesystem::path const& out) {
  options.out_root = out;
  options.progress = nullptr;
  (void)run(options);
  return get_folder(out);
}

struct stop {};

}  // namespace prepare_test

TEST_CASE("prepare: the set holds the ids of all documents in order, and the counts are right") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto const options = options_in(folder.path());
  auto const result = run(options);
  std::vector<std::int32_t> expected_ids;
  std::uint64_t bytes = 0;
  for (int i = 0; i < 120; ++i) {
    bytes_as_ids()(document_text(i), expected_ids);
    expected_ids.push_back(0);
    bytes += document_text(i).size();
  }
  CHECK(result.status == prepare_status::written);
  CHECK(result.folder == folder / "out");
  CHECK(result.total.documents == 120);
  CHECK(result.total.bytes == bytes);
  CHECK(result.total.tokens == expected_ids.size());
  CHECK(result.total.samples == expected_ids.size() / 16);
  CHECK(result.total.shards > 20);
  CHECK(result.total.input_read == result.total.input_total);
  mpt::data::token_dataset const set(folder / "out", {.sequence_length = 16});
  REQUIRE(set.size() == expected_ids.size() / 16);
  CHECK(set.reader().shards().size() == result.total.shards);
  std::vector<std::int32_t> sample(16);
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    set.sample(i, sample);
    CHECK(std::equal(sample.begin(), sample.end(),
                     expected_ids.begin() + static_cast<std::ptrdiff_t>(16 * i)));
  }
  auto const files = get_folder(folder / "out");
  CHECK(files.size() == result.total.shards + 2);  // index.json and prepare.json
  CHECK(files.contains("prepare.json"));
}

TEST_CASE("prepare: the output is the same for any number of workers and any batch size") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.compression = "zstd";
  options.hashes = {"xxh3_64"};
  auto const expected = expected_for(options, folder / "expected");
  for (std::size_t const workers : {1U, 2U, 3U, 8U})
    for (std::uint64_t const batch : {1U, 100U, 1000000U}) {
      options.workers = workers;
      options.batch_bytes = batch;
      CHECK(expected_for(options, folder / ("w" + std::to_string(workers) + "b" +
                                            std::to_string(batch))) == expected);
    }
}

TEST_CASE("prepare: an older set without hashes is complete for a run that writes hashes") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  CHECK(run(options).status == mpt::data::prepare_status::written);
  options.hashes = {std::string(mpt::data::prepared_hash)};
  CHECK(run(options).status == mpt::data::prepare_status::already_complete);
  options.out_root = folder / "hashed";
  CHECK(run(options).status == mpt::data::prepare_status::written);
  mpt::data::mds_reader const reader(options.out_root / options.split);
  for (auto const& shard : reader.shards()) CHECK(shard.raw.hashes.contains("xxh3_64"));
  auto const first = reader.folder() / reader.shards()[0].raw.basename;
  auto content = data_test::get_file(first);
  content.back() = static_cast<char>(content.back() + 1);  // another id, of the same size
  data_test::put_file(first, content);
  CHECK(data_test::contains(data_test::message_of([&] { (void)reader.sample(0); }),
                            "shard.00000.mds: xxh3_64 is "));
}

TEST_CASE("prepare: held-out documents and the rest are complete at any batch size and restart") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.hold_out_every = 7;
  for (auto const part : {mpt::data::document_part::held_out, mpt::data::document_part::rest}) {
    options.part = part;
    std::vector<std::int32_t> expected_ids;
    for (int i = 0; i < 120; ++i) {
      bool const held_out = (i / 40 + i % 40) % 7 == 6;  // 40 documents a file
      if (held_out != (part == mpt::data::document_part::held_out)) continue;
      bytes_as_ids()(document_text(i), expected_ids);
      expected_ids.push_back(0);
    }
    auto const tag = part == mpt::data::document_part::rest ? "rest" : "held";
    options.batch_bytes = 300;
    auto const expected = expected_for(options, folder / tag);
    mpt::data::token_dataset const set(folder / tag, {.sequence_length = 16});
    REQUIRE(set.size() == expected_ids.size() / 16);
    std::vector<std::int32_t> sample(16);
    for (std::uint64_t i = 0; i < set.size(); ++i) {
      set.sample(i, sample);
      CHECK(std::equal(sample.begin(), sample.end(),
                       expected_ids.begin() + static_cast<std::ptrdiff_t>(16 * i)));
    }
    // one document a batch: most batches of the held-out part would be empty
    options.batch_bytes = 1;
    CHECK(expected_for(options, folder / (tag + std::string("-small"))) == expected);
    options.out_root = folder / (tag + std::string("-stopped"));
    options.progress = [](prepare_progress const& progress) {
      if (progress.shards >= 2) throw stop{};
    };
    CHECK_THROWS_AS((void)run(options), stop);
    options.progress = nullptr;
    CHECK(run(options).status == prepare_status::resumed);
    CHECK(get_folder(options.out_root) == expected);
  }
  options.hold_out_every = 1;
  CHECK(contains(message_of([&] { (void)run(options); }), "hold_out_every is 1"));
}

TEST_CASE("prepare: max_samples ends the set, and inputs after the last needed one are not got") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const all = run(options).total;
  mpt::data::token_dataset const whole(folder / "out", {.sequence_length = 16});
  std::vector<std::size_t> got;
  std::vector<std::filesystem::path> const sources = options.inputs;
  options.deferred_inputs = {.identities = {"a", "b", "c"}, .bytes = {900, 500, 500}};
  for (std::size_t i = 0; i < 3; ++i)
    options.inputs[i] = folder / ("late/" + sources[i].filename().native());
  options.deferred_inputs->fetch = [&](std::size_t input) {
    got.push_back(input);
    data_test::put_file(options.inputs[input], data_test::get_file(sources[input]));
  };
  options.workers = 3;
  std::vector<std::int32_t> sample(16), expected(16);
  for (auto const& [count, inputs] :
       {std::pair(std::uint64_t{1}, std::size_t{1}), std::pair(all.samples / 2, std::size_t{2}),
        std::pair(all.samples, std::size_t{3}), std::pair(all.samples + 9, std::size_t{3})}) {
    got.clear();
    options.max_samples = count;
    options.out_root = folder / std::to_string(count);
    CHECK(run(options).total.samples == std::min(count, all.samples));
    CHECK(got.size() == inputs);
    CHECK(std::is_sorted(got.begin(), got.end()));
    mpt::data::token_dataset const part(options.out_root, {.sequence_length = 16});
    REQUIRE(part.size() == std::min(count, all.samples));
    for (std::uint64_t i = 0; i < part.size(); ++i) {
      part.sample(i, sample);
      whole.sample(i, expected);
      CHECK(sample == expected);
    }
  }
  got.clear();
  CHECK(run(options).status == prepare_status::already_complete);
  CHECK(got.empty());
  options.max_samples.reset();
  CHECK(contains(message_of([&] { (void)run(options); }), "max_samples: was"));
}

TEST_CASE("prepare: an input that does not come leaves a set that a later run completes") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.max_samples = run(options).total.samples - 1;
  std::vector<std::size_t> got;
  options.deferred_inputs = {.identities = {"a", "b", "c"}, .bytes = {900, 500, 500}};
  options.deferred_inputs->fetch = [&](std::size_t input) { got.push_back(input); };
  auto const expected = expected_for(options, folder / "expected");
  options.out_root = folder / "stopped";
  options.deferred_inputs->fetch = [&](std::size_t input) {
    if (input == 2) throw stop{};
  };
  CHECK_THROWS_AS((void)run(options), stop);
  CHECK_FALSE(std::filesystem::exists(options.out_root / "index.json"));
  got.clear();
  options.deferred_inputs->fetch = [&](std::size_t input) { got.push_back(input); };
  CHECK(run(options).status == prepare_status::resumed);
  CHECK(get_folder(options.out_root) == expected);
  CHECK(got == std::vector<std::size_t>{1, 2});
}

TEST_CASE("prepare: a split is written to its own sub-folder") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.split = "val";
  CHECK(run(options).folder == folder / "out/val");
  CHECK(mpt::data::mds_reader(folder / "out", {.split = "val"}).size() > 0);
  options.split = "../val";
  CHECK(contains(message_of([&] { (void)run(options); }), "not the name of a sub-folder"));
}

TEST_CASE("prepare: a complete set is not changed, and other parameters are refused by name") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const first = run(options);
  auto const files = get_folder(folder / "out");
  options.workers = 3;
  options.batch_bytes = 77;
  auto const repeated = run(options);
  CHECK(repeated.status == prepare_status::already_complete);
  CHECK(repeated.total.samples == first.total.samples);
  CHECK(repeated.total.tokens == first.total.tokens);
  CHECK(repeated.total.shards == first.total.shards);
  CHECK(get_folder(folder / "out") == files);

  auto other = options;
  other.concat.sample_ids = 32;
  other.tokenizer = "gpt2";
  auto const message = message_of([&] { (void)run(other); });
  CHECK(contains(message, "concat_tokens: was 16, now 32"));
  CHECK(contains(message, "tokenizer: was \"bytes\", now \"gpt2\""));
  CHECK(contains(message, "choose another folder, or remove this one"));
  data_test::put_file(folder / "in/a.jsonl", "{\"text\": \"changed\"}\n");
  CHECK(contains(message_of([&] { (void)run(options); }), "inputs: file 1 was"));
  CHECK(get_folder(folder / "out") == files);
}

TEST_CASE("prepare: a run stopped repeatedly by exceptions ends with the same bytes") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  for (auto const wrapping : {mpt::data::wrap::yes, mpt::data::wrap::no}) {
    auto options = options_in(folder.path());
    options.concat.bos = {300};
    options.concat.wrapping = wrapping;
    auto const tag = wrapping == mpt::data::wrap::yes ? "wrap" : "cut";
    auto const expected = expected_for(options, folder / tag);
    auto const total = run([&] {
                         auto copy = options;
                         copy.out_root = folder / tag;
                         return copy;
                       }())
                           .total;
    for (int batch_limit = 1; batch_limit < 12; batch_limit += 2) {
      options.out_root = folder / (tag + std::to_string(batch_limit));
      options.workers = 1 + static_cast<std::size_t>(batch_limit) % 3;
      int runs = 0;
      prepare_result result;
      for (bool is_finished = false; !is_finished && runs < 300; ++runs) {
        // Each run stops after some batches, but never before it has finished one more shard.
        std::uint64_t shards = 0;
        int batches = 0;
        options.progress = [&](prepare_progress const& progress) {
          if (batches++ == 0) shards = progress.shards;
          if (batches > batch_limit && progress.shards > shards) throw stop{};
        };
        try {
          result = run(options);
          is_finished = true;
        } catch (stop const&) {
          CHECK_FALSE(std::filesystem::exists(options.out_root / "index.json"));
        }
      }
      CHECK(runs > 1);
      CHECK(result.status == prepare_status::resumed);
      CHECK(result.total.documents == total.documents);
      CHECK(result.total.bytes == total.bytes);
      CHECK(result.total.tokens == total.tokens);
      CHECK(result.total.samples == total.samples);
      CHECK(get_folder(options.out_root) == expected);
    }
  }
}

TEST_CASE("prepare: a run killed at any moment and repeated ends with the same bytes") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.compression = "zstd:1";
  auto const expected = expected_for(options, folder / "expected");
  int killed = 0;
  for (unsigned const microseconds : {500U, 2000U, 5000U, 9000U, 14000U, 20000U, 30000U, 60000U}) {
    options.out_root = folder / ("out" + std::to_string(microseconds));
    auto const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        (void)run(options);
      } catch (...) {
      }
      ::_exit(0);
    }
    ::usleep(microseconds);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    (void)run(options);
    CHECK(get_folder(options.out_root) == expected);
  }
  CHECK(killed > 0);
}

TEST_CASE("prepare: a run completes the set of a process that ended inside any batch") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const expected = expected_for(options, folder / "expected");
  for (int last_batch = 0; last_batch < 20; last_batch += 3) {
    options.out_root = folder / ("out" + std::to_string(last_batch));
    auto const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      int batches = 0;
      options.progress = [&](prepare_progress const&) {
        if (batches++ == last_batch) ::_exit(9);
      };
      (void)run(options);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 9);
    CHECK(run(options).status == prepare_status::resumed);
    CHECK(get_folder(options.out_root) == expected);
  }
}

TEST_CASE("prepare: leftover files of every step of a killed run are handled") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const expected = expected_for(options, folder / "expected");
  auto const interrupt = [&](std::string const& name, std::uint64_t shards) {
    options.out_root = folder / name;
    options.progress = [=](prepare_progress const& progress) {
      if (progress.shards >= shards) throw stop{};
    };
    CHECK_THROWS_AS((void)run(options), stop);
    options.progress = nullptr;
  };
  auto const complete = [&] {
    (void)run(options);
    return get_folder(options.out_root) == expected;
  };
  interrupt("torn-line", 3);
  auto const journal = data_test::get_file(options.out_root / "prepare.journal");
  data_test::put_file(options.out_root / "prepare.journal", journal + "{\"shard\": {\"col");
  CHECK(complete());

  interrupt("temporary-files", 3);
  data_test::put_file(options.out_root / "shard.00003.mds.tmp", "half");
  data_test::put_file(options.out_root / "index.json.tmp", "half");
  CHECK(complete());

  interrupt("shard-not-in-journal", 3);
  auto const lines = data_test::get_file(options.out_root / "prepare.journal");
  auto number = std::to_string(std::count(lines.begin(), lines.end(), '\n') - 1);
  number.insert(0, 5 - number.size(), '0');
  REQUIRE_FALSE(std::filesystem::exists(options.out_root / ("shard." + number + ".mds")));
  data_test::put_file(options.out_root / ("shard." + number + ".mds"), "anything");
  CHECK(complete());

  interrupt("index-without-record", 3);  // killed between index.json and prepare.json
  data_test::put_file(options.out_root / "index.json", expected.at("index.json"));
  CHECK(complete());

  interrupt("journal-not-removed", 3);  // killed between prepare.json and the journal's removal
  auto const journal_text = data_test::get_file(options.out_root / "prepare.journal");
  CHECK(complete());
  data_test::put_file(options.out_root / "prepare.journal", journal_text);
  CHECK(run(options).status == prepare_status::already_complete);
  CHECK(get_folder(options.out_root) == expected);

  interrupt("shard-lost", 3);
  std::filesystem::remove(options.out_root / "shard.00001.mds");
  CHECK(contains(message_of([&] { (void)run(options); }), "shard.00001.mds: the journal"));

  interrupt("other-parameters", 3);
  options.concat.sample_ids = 17;
  CHECK(contains(message_of([&] { (void)run(options); }), "concat_tokens: was 16, now 17"));
}

TEST_CASE("prepare: a damaged journal is an error or harmless, never a wrong set") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const expected = expected_for(options, folder / "expected");
  options.progress = [](prepare_progress const& progress) {
    if (progress.shards >= 2) throw stop{};
  };
  CHECK_THROWS_AS((void)run(options), stop);
  options.progress = nullptr;
  auto const path = options.out_root / "prepare.journal";
  auto const intact = data_test::get_file(path);
  auto const files = get_folder(options.out_root);
  int refused = 0;
  int completed = 0;
  parallel::philox const random(7, parallel::stream_id("prepare_test/journal"));
  for (std::uint64_t round = 0; round < 60; ++round) {
    std::filesystem::remove_all(options.out_root);
    for (auto const& [name, content] : files) data_test::put_file(options.out_root / name, content);
    auto damaged = intact;
    if (round < 6) {
      damaged = std::array{"", "\n", "[]\n", "{}\n", "{\"inputs\": 3}\n", "\xff\n"}[round];
    } else if (round < 25) {
      damaged.resize(random.bits(2 * round) % damaged.size());
    } else {
      // digits of counts and positions, where a wrong digit would be most harmful
      auto const position = damaged.size() - 600 + random.bits(2 * round) % 600;
      damaged[position] = static_cast<char>(random.bits(2 * round + 1) % 256);
    }
    data_test::put_file(path, damaged);
    auto const message = message_of([&] { (void)run(options); });
    if (!message.empty()) {
      ++refused;
      continue;
    }
    ++completed;
    CHECK(get_folder(options.out_root) == expected);
  }
  CHECK(refused > 0);
  CHECK(completed > 0);
}

TEST_CASE("prepare: a folder with files of another program is refused and not changed") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto const options = options_in(folder.path());
  for (auto const* name : {"index.json", "shard.00000.mds"}) {
    std::filesystem::remove_all(folder / "out");
    data_test::put_file(folder / "out" / name, "precious");
    CHECK(contains(message_of([&] { (void)run(options); }), "which prepare did not leave"));
    CHECK(data_test::get_file(folder / "out" / name) == "precious");
  }
}

TEST_CASE("prepare: bad input stops the run with an error that names file and line") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.workers = 3;
  auto content = data_test::get_file(folder / "in/a.jsonl");
  data_test::put_file(folder / "in/a.jsonl", content + "{\"body\": \"x\"}\n");
  CHECK(contains(message_of([&] { (void)run(options); }),
                 "in/a.jsonl:41: the row has no \"text\"; its keys are \"body\""));
  CHECK_FALSE(std::filesystem::exists(folder / "out/index.json"));
  data_test::put_file(folder / "in/a.jsonl", content);
  CHECK(contains(message_of([&] { (void)run(options); }), "inputs: file 1 was"));
  options.out_root = folder / "fresh";
  data_test::put_file(folder / "in/a.jsonl", "not JSON\n" + content);
  CHECK(contains(message_of([&] { (void)run(options); }), "in/a.jsonl:1: not valid JSON"));
  data_test::put_file(folder / "in/a.jsonl", content);  // no shard was finished: another run works
  auto const gz = data_test::get_file(folder / "in/c.json.gz");
  data_test::put_file(folder / "in/c.json.gz", gz.substr(0, gz.size() / 2));
  CHECK(contains(message_of([&] { (void)run(options); }), "c.json.gz: the gzip data ends in the"));
}

TEST_CASE("prepare: invalid options are refused with advice") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto const valid = options_in(folder.path());
  auto const error = [&](auto const& change) {
    auto options = valid;
    change(options);
    return message_of([&] { (void)run(options); });
  };
  CHECK(contains(error([](auto& o) { o.concat.eos.clear(); }), "--eos_text '<|endoftext|>'"));
  CHECK(contains(error([](auto& o) { o.inputs.clear(); }), "at least one input"));
  CHECK(
      contains(error([](auto& o) { o.inputs[1] = "absent.jsonl"; }), "absent.jsonl: cannot open"));
  CHECK(contains(error([](auto& o) { o.workers = 0; }), "at least one worker"));
  CHECK(contains(error([](auto& o) { o.compression = "gz"; }), "compression 'gz'"));
  CHECK(contains(error([](auto& o) { o.concat.sample_ids = 0; }), "must be positive"));
  CHECK(contains(error([](auto& o) {
                   o.concat.sample_ids = 100000;
                   o.out_root += "2";
                 }),
                 "fewer than one sample of 100000"));
  CHECK_FALSE(std::filesystem::exists(folder / "out/index.json"));
}

TEST_CASE("prepare: a second run into the same folder is refused while the first one writes") {
  using namespace prepare_test;
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  std::optional<std::string> message;
  options.progress = [&](prepare_progress const&) {
    auto second = options;
    second.progress = nullptr;
    if (!message) message = message_of([&] { (void)run(second); });
  };
  (void)run(options);
  CHECK(contains(message.value_or(""), "another program is writing here"));
}
