#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/background_save.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/support/files.hpp>

#include "support/devices/guarded_device.hpp"

namespace background_save_test {
namespace pc = parallel::checkpoint;
using parallel::bf16;
using parallel::index;

std::vector<float> consecutive_values(index count, float first) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (auto& value : out) value = first++;
  return out;
}

/// The data that one of two ranks saves, in device memory; fill(first) makes each save different.
template <class Device>
struct rank_of_two {
  rank_of_two(Device& rank_device, index number)
      : device(rank_device),
        rank(number),
        rows(device.template allocate<float>(12)),
        columns(device.template allocate<float>(6)),
        narrow(device.template allocate<bf16>(5)) {}

  void fill(float first) {
    device.upload(rows.span(), consecutive_values(12, first + 100 * static_cast<float>(rank)));
    device.upload(columns.span(), consecutive_values(6, first + 200 * static_cast<float>(rank)));
    device.upload(narrow.span(), std::vector<bf16>(5, bf16(first)));
  }
  /// Calls add(name, extents, begin, elements, run) for each slice.
  template <class Add>
  void for_each_slice(Add const& add) const {
    add("rows", std::vector<index>{6, 4}, 12 * rank, rows.span(), index{0});
    add("columns", std::vector<index>{3, 4}, 2 * rank, columns.span(), index{2});
    if (rank == 1) add("narrow", std::vector<index>{5}, index{0}, narrow.span(), index{0});
  }
  [[nodiscard]] std::size_t bytes() const { return (12 + 6) * 4 + (rank == 1 ? 10U : 0U); }

  Device& device;
  index rank;
  parallel::buffer<float> rows;
  parallel::buffer<float> columns;
  parallel::buffer<bf16> narrow;
};

struct save_folder {
  explicit save_folder(index batch) : target{folder.path(), {0, batch}, 0} {
    pc::prepare_save(target);
  }
  test::temporary_folder folder;
  pc::save_target target;
};

/// The contents of all files of the checkpoint that is being saved, by name.
std::map<std::string, std::string> files_of(pc::save_target const& target) {
  std::map<std::string, std::string> out;
  for (auto const& entry : std::filesystem::directory_iterator(target.temporary()))
    out[entry.path().filename()] = test::read_all(entry.path());
  return out;
}

/// Two ranks save twice each, with background_save and with rank_writer; the files must be equal.
/// The data change as soon as a background save has started.
template <class Device>
void check_against_rank_writer(Device& device) {
  parallel::host::device host;
  rank_of_two zero(device, 0), one(device, 1);
  rank_of_two on_host_zero(host, 0), on_host_one(host, 1);
  pc::background_save saves[] = {{device, zero.bytes()}, {device, one.bytes()}};
  for (float const first : {1.0F, 7.0F}) {
    save_folder const expected(4), saved(4);
    auto const save = [&](auto& source, auto& on_host, index rank) {
      on_host.fill(first);
      pc::rank_writer writer(expected.target, rank);
      on_host.for_each_slice(
          [&](auto const& name, auto const& extents, index begin, auto elements, index run) {
            using element = typename decltype(elements)::element_type;
            writer.add(name, extents, begin, std::span<element const>(elements), run);
          });
      source.fill(first);
      auto& saving = saves[rank];
      CHECK_FALSE(saving.pending());
      source.for_each_slice(
          [&](auto const& name, auto const& extents, index begin, auto elements, index run) {
            saving.add(device, name, extents, begin, elements, run);
          });
      saving.start(saved.target, rank);
      source.fill(-1);
      CHECK(saving.pending());
      auto const records = saving.finish();
      CHECK_FALSE(saving.pending());
      CHECK(records == writer.finish());
      return records;
    };
    std::vector const records{save(zero, on_host_zero, 0), save(one, on_host_one, 1)};
    CHECK(files_of(saved.target) == files_of(expected.target));
    CHECK(files_of(saved.target).size() == 3);
    pc::commit(saved.target, records, "{}");
    pc::checkpoint_reader const reader(saved.target.folder());
    reader.verify();
    std::vector<float> row(4);
    reader.read("columns", 0, std::span(row));
    CHECK(row == std::vector<float>{first, first + 1, first + 200, first + 201});
  }
}

TEST_CASE(
    "background save: the files equal those of a rank that writes directly, save after save") {
  parallel::host::device device;
  check_against_rank_writer(device);
}

TEST_CASE("background save: memory that the host does not reach gives the same files") {
  guarded::device device(std::size_t{1} << 20);
  check_against_rank_writer(device);
}

TEST_CASE("background save: the caller continues, and `written` tells when the files are on disk") {
  parallel::host::device device;
  rank_of_two source(device, 0);
  save_folder const folder(4);
  std::latch begun(1), gate(1);
  auto const caller = std::this_thread::get_id();
  bool runs_elsewhere = true;
  std::string last_step;
  pc::background_save saving(device, source.bytes(), [&](std::string_view step) {
    if (step == "write slice" && last_step != step) {
      begun.count_down();
      gate.wait();
    }
    last_step = step;
    runs_elsewhere = runs_elsewhere && std::this_thread::get_id() != caller;
  });
  CHECK_FALSE(saving.written());
  source.fill(1);
  source.for_each_slice([&](auto const&... slice) { saving.add(device, slice...); });
  saving.start(folder.target, 0);
  begun.wait();
  for (float step = 2; step < 5; ++step) {  // the thread waits at the gate all the time
    source.fill(step);
    CHECK_FALSE(saving.written());
  }
  CHECK(files_of(folder.target).at("rank-00000-F32-000.safetensors").empty());
  gate.count_down();
  while (!saving.written()) std::this_thread::yield();
  CHECK(last_step == "flush rank file");
  CHECK(runs_elsewhere);
  auto const content = files_of(folder.target).at("rank-00000-F32-000.safetensors");
  float value = 0;
  std::memcpy(&value, content.data() + 65536, sizeof value);
  CHECK(value == 1);
  (void)saving.finish();
}

TEST_CASE("background save: `written` and `finish` throw the error of writing") {
  parallel::host::device device;
  rank_of_two source(device, 0);
  save_folder const folder(4);
  test::write_all(folder.target.temporary() / "rank-00000-F32-000.safetensors", "another writer");
  std::string const expected = "rank-00000-F32-000.safetensors: cannot create: File exists";
  for (bool const waits : {false, true}) {
    pc::background_save saving(device, source.bytes());
    source.for_each_slice([&](auto const&... slice) { saving.add(device, slice...); });
    saving.start(folder.target, 0);
    CHECK(test::contains(test::message_of([&] {
                           while (!waits && !saving.written()) std::this_thread::yield();
                           (void)saving.finish();
                         }),
                         expected));
    CHECK(test::contains(test::message_of([&] { (void)saving.written(); }), expected));
  }
}

TEST_CASE("background save: the destructor does not wait for all remaining writes") {
  parallel::host::device device;
  auto const memory = device.allocate_zeroed<float>(1);
  save_folder const folder(4);
  std::latch begun(1);
  std::atomic<bool> may_finish = false;
  std::atomic<int> written_count = 0;
  auto saving = std::make_unique<pc::background_save>(
      device, std::size_t{40'000}, [&](std::string_view step) {
        if (step != "write slice") return;
        if (++written_count == 1) begun.count_down();
        while (!may_finish) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
  for (int i = 0; i < 10'000; ++i)
    saving->add(device, parallel::concat("t", i), std::vector<index>{1}, 0, memory.span());
  saving->start(folder.target, 0);
  begun.wait();
  may_finish = true;
  saving.reset();
  CHECK(written_count < 5'000);
}

TEST_CASE(
    "background save: slices that do not fit, or are added between start and finish, are refused") {
  parallel::host::device device;
  auto const memory = device.allocate_zeroed<float>(4);
  save_folder const folder(4);
  std::latch gate(1);
  pc::background_save saving(device, 20, [&](std::string_view) { gate.wait(); });
  CHECK(test::contains(test::message_of([&] { (void)saving.finish(); }), "no save was started"));
  auto const add = [&](std::string const& name) {
    saving.add(device, name, std::vector<index>{4}, 0, memory.span());
  };
  add("a");
  CHECK(test::contains(test::message_of([&] { add("b"); }),
                       "checkpoint slice of \"b\": 16 bytes do not fit 20 bytes of which 16 are"));
  saving.start(folder.target, 0);
  CHECK(test::contains(test::message_of([&] { saving.start(folder.target, 0); }),
                       "one checkpoint at a time"));
  CHECK_FALSE(test::message_of([&] { add("c"); }).empty());
  gate.count_down();
  CHECK(test::contains(saving.finish(), "\"a\""));
  add("b");  // after `finish` there is space again
}

}  // namespace background_save_test
