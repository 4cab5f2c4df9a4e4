#!/usr/bin/env bash
# Four ranks on two nodes under Slurm: sbatch examples/launch/slurm.sh
#SBATCH --job-name=stepwell
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
# A minute before the time is over every rank is asked to stop: all end after the same step, with a
# checkpoint, and the next job of this script goes on from it.
#SBATCH --signal=TERM@60
set -euo pipefail

# UCX carries messages by InfiniBand or RoCE where there is one. Name the device if there are several.
export OMPI_MCA_pml=ucx
# export UCX_NET_DEVICES=mlx5_0:1

# Rows lie on the NVMe drive of each node, each rank's in rank-N below that; checkpoints and data in
# a directory that all nodes see.
srun --mpi=pmix --cpu-bind=cores stepwell train job.toml \
    --data '/shared/days/*.packed' \
    --threads "$SLURM_CPUS_PER_TASK" \
    --tiers.ssd /nvme/stepwell-rows \
    --checkpoint /shared/checkpoints/job-1 --resume=auto \
    --report report.json
