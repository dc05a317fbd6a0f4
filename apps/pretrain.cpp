// pretrain: trains an MPT from one of LLM Foundry's YAML files.
//
//   pretrain mpt-125m.yaml key.sub=value …          on threads (ranks=N), or
//   mpirun -n N pretrain mpt-125m.yaml …            on MPI ranks
#include "support/train.hpp"

int main(int argc, char** argv) {
  return apps::train_program(argc, argv, "Pretrain an MPT from a YAML in LLM Foundry's form");
}
