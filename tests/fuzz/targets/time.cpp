// Times: "100ba", "0.02dur", and when they are due.
#include <mpt/yaml/time.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::time(std::string_view input) {
  refused([&] {
    auto const time = mpt::parse_time(input);
    ensure(mpt::parse_time(mpt::to_string(time)) == time, "a time reads back as it is printed");
    for (double const count : {1.0, 12345.0, 9007199254740991.0}) {
      mpt::training_clock const clock{.samples_per_batch = 256,
                                      .tokens_per_batch = 524288,
                                      .batches_per_epoch = 1000,
                                      .max_duration = {count, mpt::time_unit::batch}};
      refused([&] {
        ensure(mpt::batches_to_reach(time, clock) >= 0, "a time lies in the future");
        static_cast<void>(mpt::is_due(time, 1, clock));
        static_cast<void>(mpt::is_due(time, 12345, clock));
      });
    }
  });
}
