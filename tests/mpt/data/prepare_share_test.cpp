#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <mpt/data/prepare_share.hpp>
#include <mpt/data/scratch.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prepare_share_test {

using data_test::contains;
using data_test::get_folder;
using data_test::message_of;
using mpt::data::inputs_of;
using mpt::data::prepare_options;

mpt::data::text_encoder bytes_as_ids() {
  return [](std::string_view text, std::vector<std::int32_t>& out) {
    for (char const byte : text) out.push_back(static_cast<unsigned char>(byte) + 1);
  };
}

/// Nine files of different sizes.
prepare_options options_in(std::filesystem::path const& folder) {
  prepare_options out;
  for (int f = 0; f < 9; ++f) {
    std::string rows;
    for (int i = 0; i < 20 + f * 7 % 11; ++i)
      rows +=
          "{\"text\": \"" + std::string(static_cast<std::size_t>(i * f % 23 + 1), 'a') + "\"}\n";
    out.inputs.push_back(folder / ("in/" + std::to_string(f) + ".jsonl"));
    data_test::put_file(out.inputs.back(), rows);
  }
  out.out_root = folder / "out";
  out.split = "train";
  out.tokenizer = "bytes";
  out.concat = {.sample_ids = 16, .eos = {0}};
  out.size_limit = 600;
  out.batch_bytes = 200;
  return out;
}

/// All samples of a set, in order.
std::vector<std::string> samples_of(std::filesystem::path const& folder) {
  mpt::data::mds_reader const reader(folder);
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < reader.size(); ++i) {
    auto const sample = reader.sample(i);
    out.emplace_back(sample.bytes("tokens"));
  }
  return out;
}

TEST_CASE(
    "prepare_share: every input belongs to one process, in order, and bytes are shared evenly") {
  std::vector<std::uint64_t> const sizes{10, 900, 0, 50, 40, 400, 300, 7, 7, 7, 1000, 279};
  for (std::uint64_t count = 1; count < 20; ++count) {
    std::size_t next = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      auto const range = inputs_of(sizes, {i, count});
      if (range.begin >= range.end) continue;
      CHECK(range.begin == next);
      next = range.end;
      std::uint64_t bytes = 0;
      for (auto index = range.begin; index < range.end; ++index) bytes += sizes[index];
      CHECK(bytes <= 3000 / count + 1000);  // an even share, and the largest file
    }
    CHECK(next == sizes.size());
  }
}

TEST_CASE("prepare_share: each part is prepare's set of its files, and the index holds all parts") {
  data_test::scratch_folder const folder;
  auto const options = options_in(folder.path());
  std::vector<std::uint64_t> sizes;
  for (auto const& path : options.inputs) sizes.push_back(std::filesystem::file_size(path));
  std::vector<std::string> expected;
  for (std::uint64_t const i : {2U, 0U, 3U, 1U}) {  // any order
    auto const result = mpt::data::prepare_share(options, {i, 4}, bytes_as_ids);
    CHECK((result.missing == 0) == (i == 1));
  }
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto alone = options;
    auto const range = inputs_of(sizes, {i, 4});
    alone.inputs.assign(options.inputs.begin() + static_cast<std::ptrdiff_t>(range.begin),
                        options.inputs.begin() + static_cast<std::ptrdiff_t>(range.end));
    alone.out_root = folder / ("alone" + std::to_string(i));
    alone.split.clear();
    (void)mpt::data::prepare(alone, bytes_as_ids);
    auto const without_record = [](std::filesystem::path const& set) {
      auto files = get_folder(set);
      CHECK(files.erase("prepare.json") == 1);
      return files;
    };
    CHECK(without_record(alone.out_root) ==
          without_record(folder / ("out/train/part-0000" + std::to_string(i) + "-of-00004")));
    auto const samples = samples_of(alone.out_root);
    expected.insert(expected.end(), samples.begin(), samples.end());
  }
  CHECK(samples_of(folder / "out/train") == expected);
  CHECK(mpt::data::mds_reader(folder / "out/train").verify().samples == expected.size());
}

TEST_CASE("prepare_share: the held-out documents do not depend on the number of processes") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.hold_out_every = 5;
  options.concat.sample_ids = 1;  // no part drops an incomplete sample
  for (auto const part : {mpt::data::document_part::held_out, mpt::data::document_part::rest}) {
    options.part = part;
    auto const name = std::to_string(static_cast<int>(part));
    options.split = "one" + name;
    (void)mpt::data::prepare(options, bytes_as_ids);
    options.split = "three" + name;
    for (std::uint64_t i = 0; i < 3; ++i)
      (void)mpt::data::prepare_share(options, {i, 3}, bytes_as_ids);
    CHECK(samples_of(options.out_root / ("one" + name)) ==
          samples_of(options.out_root / ("three" + name)));
  }
}

TEST_CASE("prepare_share: processes killed at any moment and repeated end with the same bytes") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.compression = "zstd:1";
  constexpr std::uint64_t count = 3;
  options.split = "expected";
  for (std::uint64_t i = 0; i < count; ++i)
    (void)mpt::data::prepare_share(options, {i, count}, bytes_as_ids);
  auto const expected = get_folder(options.out_root / options.split);
  int killed = 0;
  for (int round = 0; round < 6; ++round) {
    options.split = "round" + std::to_string(round);
    bool complete = false;
    for (int run = 0; !complete && run < 200; ++run) {
      std::vector<::pid_t> children;
      for (std::uint64_t i = 0; i < count; ++i) {
        auto const child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
          int status = 1;
          try {
            status =
                mpt::data::prepare_share(options, {i, count}, bytes_as_ids).missing == 0 ? 0 : 2;
          } catch (...) {
          }
          ::_exit(status);
        }
        children.push_back(child);
      }
      ::usleep(static_cast<unsigned>((round + 1) * 1500 + run * 3000));
      for (auto const child : children) ::kill(child, SIGKILL);
      for (auto const child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        if (WIFSIGNALED(status)) ++killed;
        CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) == 1));
        complete = complete || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
      }
    }
    CHECK(complete);
    (void)mpt::data::prepare_share(options, {0, count},
                                   bytes_as_ids);  // removes leftover files of a killed run
    auto found = get_folder(options.out_root / options.split);
    CHECK(found == expected);
  }
  CHECK(killed > 6);
}

TEST_CASE("prepare_share: another number of processes and invalid shares are refused") {
  data_test::scratch_folder const folder;
  auto const options = options_in(folder.path());
  (void)mpt::data::prepare_share(options, {0, 3}, bytes_as_ids);
  auto const error = [&](mpt::data::process_share share) {
    return message_of([&] { (void)mpt::data::prepare_share(options, share, bytes_as_ids); });
  };
  CHECK(
      contains(error({0, 4}), "already holds part-00000-of-00003, which a run of another number"));
  CHECK(contains(error({3, 3}), "process 3 of 3"));
  CHECK(contains(error({0, 0}), "process 0 of 0"));
  CHECK(contains(message_of([&] { (void)mpt::data::prepare(options, bytes_as_ids); }), "part-"));
}

TEST_CASE("prepare_share: parts that differ in files, their order or options are never merged") {
  data_test::scratch_folder const folder;
  auto const options = options_in(folder.path());
  auto const set = folder / "out/train";
  (void)mpt::data::prepare_share(options, {0, 2}, bytes_as_ids);
  auto const error = [&](auto&& change, std::uint64_t index = 1) {
    auto other = options;
    change(other);
    return message_of([&] { (void)mpt::data::prepare_share(other, {index, 2}, bytes_as_ids); });
  };
  auto const difference =
      "part-00000-of-00002: was prepared by a process with other files or options than this one";
  auto const swapped = [](auto& o) { std::swap(o.inputs[0], o.inputs[8]); };
  CHECK(contains(error(swapped), difference));
  CHECK(contains(error(swapped), "\n  all_inputs: file 1 was \"0.jsonl, "));
  CHECK(contains(error(swapped), "give the same files in the same order and the same options"));
  CHECK(contains(error([](auto& o) { o.inputs.pop_back(); }),
                 "\n  all_inputs: were 9 files, now 8\n"));
  CHECK(contains(error([](auto& o) { o.tokenizer = "gpt2"; }),
                 "\n  tokenizer: was \"bytes\", now \"gpt2\"\n"));
  CHECK(
      contains(error([](auto& o) { o.concat.sample_ids = 32; }), "concat_tokens: was 16, now 32"));
  CHECK(contains(error([](auto& o) { o.compression = "zstd"; }), "compression: was \"\", now"));
  CHECK(contains(error([](auto& o) { o.part = mpt::data::document_part::rest; }), "part: was 0"));
  data_test::put_file(options.inputs[8], "{\"text\": \"another\"}\n");
  CHECK(contains(error([](auto&) {}), "all_inputs: file 9 was"));
  CHECK(contains(error([](auto&) {}, 0), "all_inputs: file 9 was"));  // of its own part
  CHECK_FALSE(std::filesystem::exists(set / "index.json"));
  CHECK_FALSE(std::filesystem::exists(set / "part-00001-of-00002"));
}

TEST_CASE("prepare_share: differences between simultaneous processes are reported before merging") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const set = folder / "out/train";
  (void)mpt::data::prepare_share(options, {0, 2}, bytes_as_ids);
  std::filesystem::rename(set / "part-00000-of-00002", folder / "aside");
  options.concat.sample_ids = 32;
  auto back = [&, moved = false](mpt::data::prepare_progress const&) mutable {
    if (!std::exchange(moved, true))
      std::filesystem::rename(folder / "aside", set / "part-00000-of-00002");
  };
  options.progress = back;
  CHECK(contains(message_of([&] {
                   (void)mpt::data::prepare_share(options, {1, 2}, bytes_as_ids);
                 }),
                 "concat_tokens: was 16, now 32"));
  CHECK_FALSE(std::filesystem::exists(set / "index.json"));
}

TEST_CASE(
    "prepare_share: an interrupted part with a finished shard fixes the other processes' options") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  auto const part = folder / "out/train/part-00000-of-00002";
  struct interruption {};
  for (std::uint64_t const shards : {0U, 1U}) {
    options.progress = [&](mpt::data::prepare_progress const& progress) {
      if (progress.shards >= shards) throw interruption{};
    };
    CHECK_THROWS_AS((void)mpt::data::prepare_share(options, {0, 2}, bytes_as_ids), interruption);
    CHECK(std::filesystem::exists(part / "prepare.journal"));
    auto other = options;
    other.progress = {};
    other.tokenizer = "gpt2";
    other.out_root = folder / ("out" + std::to_string(shards));
    std::filesystem::copy(folder / "out", other.out_root, std::filesystem::copy_options::recursive);
    auto const message = message_of([&] {
      (void)mpt::data::prepare_share(other, {1, 2}, bytes_as_ids);
    });
    CHECK(contains(message, "tokenizer: was \"bytes\", now \"gpt2\"") == (shards > 0));
    CHECK((message == "") == (shards == 0));
  }
}

TEST_CASE("prepare_share: with more processes than files some processes have no input") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.inputs.resize(2);
  for (std::uint64_t i = 0; i < 5; ++i) {
    auto const result = mpt::data::prepare_share(options, {i, 5}, bytes_as_ids);
    if (i == 4) CHECK(result.missing == 0);
  }
  CHECK(samples_of(folder / "out/train").size() > 10);
}

TEST_CASE("prepare_share: a part with less than one sample is complete without shards") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.inputs.resize(3);
  auto const write_document = [&](std::size_t file,
                                  std::size_t ids) {  // one document of `ids` ids, eos included
    data_test::put_file(options.inputs[file],
                        "{\"text\": \"" + std::string(ids - 1, 'a') + "\"}\n");
  };
  write_document(0, 10);
  write_document(1, 40);
  write_document(2, 15);
  options.concat.sample_ids = 16;
  // rows of 22, 52 and 27 bytes, whose middles lie in the three thirds of 101
  for (std::uint64_t const i : {2U, 1U, 0U}) {
    auto const result = mpt::data::prepare_share(options, {i, 3}, bytes_as_ids);
    CHECK(result.part.total.samples == (i == 1 ? 2 : 0));
    CHECK(result.missing == i);
  }
  auto const set = folder / "out/train";
  CHECK(mpt::data::mds_reader(set).verify().samples == 2);
  CHECK(samples_of(set) == samples_of(set / "part-00001-of-00003"));
  auto const files = get_folder(set);
  auto const repeated = mpt::data::prepare_share(options, {2, 3}, bytes_as_ids);
  CHECK(repeated.part.status == mpt::data::prepare_status::already_complete);
  CHECK(repeated.part.total.tokens == 15);
  CHECK(repeated.samples == 2);
  CHECK(get_folder(set) == files);
}

TEST_CASE("prepare_share: a whole set without samples is an error, and no index is written") {
  data_test::scratch_folder const folder;
  auto options = options_in(folder.path());
  options.concat.sample_ids = 100000;
  CHECK(mpt::data::prepare_share(options, {0, 2}, bytes_as_ids).missing == 1);
  auto const last = [&] { (void)mpt::data::prepare_share(options, {1, 2}, bytes_as_ids); };
  CHECK(contains(message_of(last), "none of the 2 parts has enough text for one sample"));
  CHECK(contains(message_of(last), "none of the 2 parts"));  // also when it is repeated
  CHECK_FALSE(std::filesystem::exists(folder / "out/train/index.json"));
}

}  // namespace prepare_share_test
