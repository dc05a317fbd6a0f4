// The journal of an interrupted `prepare`: lines of JSON, each with a corrected checksum.
#include <algorithm>

#include <mpt/data/hash.hpp>
#include <mpt/data/prepare_journal.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::journal(std::string_view input) {
  static scratch const folder;
  std::string text;
  while (!input.empty()) {
    auto const line = input.substr(0, input.find('\n'));
    text += mpt::data::hash_of("xxh3_64", line) + " " + std::string(line) + "\n";
    input.remove_prefix(std::min(input.size(), line.size() + 1));
  }
  static_cast<void>(folder.file("shard.00000.mds", "1234"));
  static_cast<void>(folder.file("prepare.journal", text));
  refused([&] {
    mpt::data::detail::prepare_journal journal(folder.path());
    journal.resume({{"tokenizer", "t"}});
  });
}
