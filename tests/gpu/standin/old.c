/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver from before there was most of what we need. */
int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	return (int)flags;
}
