#include <doctest/doctest.h>

#include <cstdint>
#include <mpt/data/concatenator.hpp>
#include <mpt/data/scratch.hpp>
#include <span>
#include <vector>

namespace concatenator_test {

using ids = std::vector<std::int32_t>;
using mpt::data::concatenator;
using mpt::data::concatenator_options;
using mpt::data::token_position;
using mpt::data::wrap;

struct sample {
  ids values;
  token_position start;
};

/// All samples of `documents`, without the documents before `from`.
inline std::vector<sample> run(std::vector<ids> const& documents, concatenator_options options,
                               token_position from = {}) {
  concatenator joined(options, from);
  std::vector<sample> out;
  for (std::size_t i = from.document; i < documents.size(); ++i)
    joined.append(documents[i], [&](std::span<std::int32_t const> values, token_position start) {
      out.push_back({ids(values.begin(), values.end()), start});
    });
  return out;
}

/// The rule in its simplest form, as the reference.
inline std::vector<ids> plainly(std::vector<ids> const& documents,
                                concatenator_options const& options) {
  std::vector<ids> out;
  ids buffer;
  auto const length = static_cast<std::ptrdiff_t>(options.sample_ids);
  for (auto const& document : documents) {
    for (auto const& part : {options.bos, document, options.eos})
      buffer.insert(buffer.end(), part.begin(), part.end());
    while (buffer.size() >= options.sample_ids) {
      out.emplace_back(buffer.begin(), buffer.begin() + length);
      if (options.wrapping == wrap::yes)
        buffer.erase(buffer.begin(), buffer.begin() + length);
      else
        buffer.clear();
    }
  }
  return out;
}

inline std::vector<ids> numbered(std::initializer_list<int> lengths) {
  std::vector<ids> out;
  std::int32_t next = 1;
  for (int const length : lengths) {
    out.emplace_back();
    for (int i = 0; i < length; ++i) out.back().push_back(next++);
  }
  return out;
}

}  // namespace concatenator_test

TEST_CASE("concatenator: documents are joined with bos and eos and cut, and the tail is dropped") {
  using namespace concatenator_test;
  auto const out = run(numbered({3, 4, 1}), {.sample_ids = 4, .eos = {0}});
  REQUIRE(out.size() == 2);
  CHECK(out[0].values == ids{1, 2, 3, 0});
  CHECK(out[1].values == ids{4, 5, 6, 7});
  CHECK(out[1].start == token_position{1, 0});
}

TEST_CASE("concatenator: samples equal those of a simple reference for many shapes") {
  using namespace concatenator_test;
  auto const documents = numbered({3, 0, 25, 1, 1, 7, 64, 0, 0, 5, 8, 13});
  for (std::size_t n = 1; n < 40; ++n)
    for (auto const wrapping : {wrap::yes, wrap::no})
      for (auto const& [bos, eos] : std::vector<std::pair<ids, ids>>{
               {{}, {0}}, {{-1}, {}}, {{-1, -2}, {-3, -4, -5}}, {{}, {}}}) {
        concatenator_options const options{n, bos, eos, wrapping};
        auto const expected = plainly(documents, options);
        auto const found = run(documents, options);
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].values == expected[i]);
      }
}

TEST_CASE("concatenator: a restart at the start of a sample gives the same further samples") {
  using namespace concatenator_test;
  auto const documents = numbered({3, 0, 25, 1, 1, 7, 64, 0, 0, 5, 8, 13});
  for (std::size_t n = 1; n < 40; n += 3)
    for (auto const wrapping : {wrap::yes, wrap::no}) {
      concatenator_options const options{n, {-1}, {-2, -3}, wrapping};
      auto const whole = run(documents, options);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        auto const rest = run(documents, options, whole[i].start);
        REQUIRE(rest.size() == whole.size() - i);
        for (std::size_t j = 0; j < rest.size(); ++j) {
          CHECK(rest[j].values == whole[i + j].values);
          CHECK(rest[j].start == whole[i + j].start);
        }
      }
    }
}

TEST_CASE("concatenator: a restart position beyond its document is refused") {
  using namespace concatenator_test;
  CHECK(data_test::contains(data_test::message_of([] {
                              run(numbered({3}), {.sample_ids = 2}, {0, 4});
                            }),
                            "its text or the tokenizer changed"));
  CHECK(data_test::contains(
      data_test::message_of([] { concatenator(concatenator_options{.sample_ids = 0}); }),
      "must be positive"));
}
