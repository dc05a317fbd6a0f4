// The index.json of an MDS set.
#include <mpt/data/mds/mds_index.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::mds_index(std::string_view input) {
  refused([&] {
    auto const shards = mpt::data::parse_mds_index(input, "index.json");
    auto const printed = mpt::data::print_mds_index(shards);
    ensure(mpt::data::print_mds_index(mpt::data::parse_mds_index(printed, "printed")) == printed,
           "an index survives being printed and parsed");
  });
}
