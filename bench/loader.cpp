// Reads an epoch of an MDS set in shuffled batches, or only copies the same bytes from memory to
// memory, which no loader can be faster than; see follow.hpp for the protocol.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <mpt/data/batch_loader.hpp>

#include "follow.hpp"
#include "support/app.hpp"

namespace {

struct arguments {
  std::filesystem::path folder;
  std::uint64_t length = 2048;
  std::uint64_t batch = 32;
  bool copy = false;
};

void run(arguments const& args) {
  using namespace mpt::data;
  auto const set = std::make_shared<token_dataset const>(
      args.folder, token_dataset_options{.sequence_length = args.length});
  auto const batches = set->size() / args.batch;
  std::vector<std::int32_t> from(set->size() * args.length);
  for (std::uint64_t i = 0; args.copy && i < set->size(); ++i)
    set->sample(i, std::span(from).subspan(i * args.length, args.length));
  std::vector<std::int32_t> to(args.batch * args.length);
  std::int64_t sum = 0;  // someone looks at what was read
  auto const copy = [&] {
    for (std::uint64_t b = 0; b < batches; ++b) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(b * to.size()), to.size(), to.begin());
      sum += to[b % to.size()];
    }
  };
  auto const read = [&] {
    batch_loader loader(set, {.global_batch_size = args.batch, .last_row = args.batch});
    for (std::uint64_t b = 0; b < batches; ++b) sum += loader.next()->ids[b % to.size()];
  };
  auto const bytes = batches * to.size() * sizeof to[0];
  nlohmann::ordered_json const result{{"samples", batches * args.batch}, {"bytes", bytes}};
  if (args.copy)
    bench::follow(result, copy);
  else
    bench::follow(result, read);
  parallel::require(sum >= 0, "ids are not negative");
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Processor time of reading an MDS set, once a line of standard input"};
  app.add_option("folder", args.folder, "MDS set of tokens")->required();
  app.add_option("--length", args.length, "tokens of a sample")->check(CLI::PositiveNumber);
  app.add_option("--batch", args.batch)->check(CLI::PositiveNumber);
  app.add_flag("--copy", args.copy, "only copy the bytes from memory to memory");
  return apps::run(app, argc, argv, [&] { run(args); });
}
