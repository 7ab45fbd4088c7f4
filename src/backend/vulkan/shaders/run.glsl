// run.glsl - where the runs of a chunk begin in the types whose chunks are 32 neighbours.
uint rl_run(uint chunk, uint run)
{
    return 32u * chunk + 8u * run;
}
