// Reads an epoch of an MDS set in shuffled batches, or only copies the same bytes from memory to
// memory, which bounds the speed of any loader; see follow.hpp for the protocol.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <mpt/data/batch_loader.hpp>

#include <cli/app.hpp>
#include "parts/follow.hpp"

namespace {

struct arguments {
  std::filesystem::path folder;
  std::uint64_t length = 2048;
  std::uint64_t batch = 32;
  bool is_copy = false;
};

void run(arguments const& args) {
  using namespace mpt::data;
  auto const set = std::make_shared<token_dataset const>(
      args.folder, token_dataset_options{.sequence_length = args.length});
  auto const batches = set->size() / args.batch;
  std::vector<std::int32_t> source(set->size() * args.length);
  for (std::uint64_t i = 0; args.is_copy && i < set->size(); ++i)
    set->sample(i, std::span(source).subspan(i * args.length, args.length));
  std::vector<std::int32_t> destination(args.batch * args.length);
  std::int64_t sum = 0;  // uses the data, so that reading is not optimised away
  auto const copy = [&] {
    for (std::uint64_t b = 0; b < batches; ++b) {
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(b * destination.size()),
                  destination.size(), destination.begin());
      sum += destination[b % destination.size()];
    }
  };
  auto const read = [&] {
    batch_loader loader(set, {.global_batch_size = args.batch, .last_row = args.batch});
    for (std::uint64_t b = 0; b < batches; ++b) sum += loader.next()->ids[b % destination.size()];
  };
  auto const bytes = batches * destination.size() * sizeof destination[0];
  nlohmann::ordered_json const result{{"samples", batches * args.batch}, {"bytes", bytes}};
  if (args.is_copy)
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
  app.add_flag("--copy", args.is_copy, "only copy the bytes from memory to memory");
  return apps::run(app, argc, argv, [&] { run(args); });
}
